# SPDX-License-Identifier: Apache-2.0
"""The cases of each VNF: its configuration and its input frames.

All cases have the two ports "a" and "b" and, where it matters, 1000 flows. Configurations have the
size of a small site, not the minimum: 1000 routes, 100 rules, 1000 subscribers.
"""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from headrace.bench.peers.frames import Bytes, Words, be32, mac, udp_frames
from headrace.bench.vnfs.encryption import encrypted
from headrace.bench.vnfs.mixes import MakeFrames

FLOWS = 1000
MAC = {"a": "02:00:00:00:0a:01", "b": "02:00:00:00:0b:01"}
PEER = {"a": "02:00:00:00:0a:02", "b": "02:00:00:00:0b:02"}
INSIDE = 0x0A000000  # 10.0.0.0: hosts behind port a
OUTSIDE = 0x14000000  # 20.0.0.0: hosts behind port b


@dataclass(frozen=True)
class Case:
    """The measurement of one function.

    `frames` come in at the port `entry`, after those of `warm_up` came in at its port once or more.
    `transmits` is the share of the input packets that must be sent, or None for a function with
    another purpose.
    """

    name: str
    function: str
    frames: MakeFrames | None
    configuration: dict[str, Any] = field(default_factory=dict)
    entry: str = "a"
    warm_up: tuple[str, MakeFrames] | None = None
    transmits: float | None = 1.0
    note: str = ""


def hosts(first: int, count: int = FLOWS) -> Words:
    """Consecutive addresses."""
    return np.arange(first + 1, first + 1 + count, dtype=np.uint32)


def plain(*, entry: str = "a", spread: int = 1) -> MakeFrames:
    """UDP from 1000 hosts of one side to 1000 of the other, `spread` addresses apart."""
    near, far = (INSIDE, OUTSIDE) if entry == "a" else (OUTSIDE, INSIDE)

    def make(length: int) -> Bytes:
        return udp_frames(
            eth_dst=mac(MAC[entry]),
            eth_src=mac(PEER[entry]),
            ipv4_src=hosts(near),
            ipv4_dst=far + 1 + spread * np.arange(FLOWS, dtype=np.uint32),
            length=length,
        )

    return make


def bridged(entry: str) -> MakeFrames:
    """Frames between 100 stations at port a and 100 at port b, each to each of its number."""
    other = {"a": "b", "b": "a"}[entry]

    def station(port: str) -> Bytes:
        rows = np.zeros((FLOWS, 6), dtype=np.uint8)
        rows[:] = np.frombuffer(mac(PEER[port]), np.uint8)
        rows[:, 3] = np.arange(FLOWS) % 100
        return rows

    def make(length: int) -> Bytes:
        frames = plain(entry=entry)(length)
        frames[:, 0:6] = station(other)
        frames[:, 6:12] = station(entry)
        return frames

    return make


def tagged(length: int) -> Bytes:
    """Frames of 1000 subscribers: S-VLAN 100, C-VLANs from 1, addresses from 100.64.1.0."""
    inner = udp_frames(
        eth_dst=mac(MAC["a"]),
        eth_src=mac(PEER["a"]),
        ipv4_src=np.arange(0x64400100, 0x64400100 + FLOWS, dtype=np.uint32),
        ipv4_dst=hosts(OUTSIDE),
        length=length - 8,
    )
    tags = np.zeros((FLOWS, 8), dtype=np.uint8)
    tags[:, 0:4] = (0x88, 0xA8, 0, 100)
    tags[:, 4:6] = (0x81, 0x00)
    tags[:, 6:8] = be32(np.arange(1, FLOWS + 1, dtype=np.uint32))[:, 2:4]
    return np.concatenate([inner[:, :12], tags, inner[:, 12:]], axis=1)


def in_gre(length: int) -> Bytes:
    """Frames from the core to those subscribers; `length` is that of the inner frame."""
    inner = udp_frames(
        eth_dst=mac(MAC["b"]),
        eth_src=mac(PEER["b"]),
        ipv4_src=hosts(OUTSIDE),
        ipv4_dst=np.arange(0x64400100, 0x64400100 + FLOWS, dtype=np.uint32),
        length=length,
    )[:, 14:]
    size = inner.shape[1] + 42
    outer = udp_frames(
        eth_dst=mac(MAC["b"]),
        eth_src=mac(PEER["b"]),
        ipv4_src=np.full(FLOWS, 0xC0000202, dtype=np.uint32),
        ipv4_dst=np.full(FLOWS, 0xC0000201, dtype=np.uint32),
        length=size,
        protocol=47,
    )
    key = (100 << 12) + np.arange(1, FLOWS + 1, dtype=np.uint32)
    outer[:, 34:38] = (0x20, 0, 8, 0)  # RFC 2890: a key; IPv4 within
    outer[:, 38:42] = be32(key)
    outer[:, 42:] = inner
    return outer


def ipv6(length: int) -> Bytes:
    """IPv6 to 1000 prefixes of 64 bits, without a payload: 64 octets have no space for one."""
    frames = np.zeros((FLOWS, length), dtype=np.uint8)
    frames[:, 0:6] = np.frombuffer(mac(MAC["a"]), np.uint8)
    frames[:, 6:12] = np.frombuffer(mac(PEER["a"]), np.uint8)
    frames[:, 12:15] = (0x86, 0xDD, 0x60)
    frames[:, 18:22] = np.frombuffer((length - 54).to_bytes(2) + bytes([59, 64]), np.uint8)
    frames[:, 22:38] = np.frombuffer(ipaddress.IPv6Address("2001:db8:a::9").packed, np.uint8)
    frames[:, 38:54] = np.frombuffer(ipaddress.IPv6Address("2001:db8:100::9").packed, np.uint8)
    frames[:, 44:46] = be32(np.arange(FLOWS, dtype=np.uint32))[:, 2:4]
    return frames


def both_ports(**members: Any) -> list[dict[str, Any]]:
    """A neighbor at each port: its MAC address and the given members by port."""
    return [{"mac": PEER[port], **members[port]} for port in ("a", "b")]


ROUTER: dict[str, Any] = {
    "interfaces": [
        {"port": "a", "address": "192.0.2.1/30"},
        {"port": "b", "address": "192.0.2.5/30"},
    ],
    "neighbors": both_ports(a={"address": "192.0.2.2"}, b={"address": "192.0.2.6"}),
    "routes": [
        {"prefix": "10.0.0.0/8", "via": "192.0.2.2"},
        *({"prefix": f"20.{n // 256}.{n % 256}.0/24", "via": "192.0.2.6"} for n in range(FLOWS)),
    ],
}

ROUTER6: dict[str, Any] = {
    "interfaces": [
        {"port": "a", "address": "2001:db8:a::1/64"},
        {"port": "b", "address": "2001:db8:b::1/64"},
    ],
    "neighbors": [{"address": "2001:db8:b::2", "mac": PEER["b"]}],
    "routes": [
        {"prefix": f"2001:db8:100:{n:x}::/64", "via": "2001:db8:b::2"} for n in range(FLOWS)
    ],
}

# 99 rules that don't match, and one that does: rte_acl's cost depends on the set, not on the order.
FIREWALL: dict[str, Any] = {
    "rules": [
        *(
            {"action": "deny", "proto": "tcp", "dst": f"30.0.{n}.0/24", "dst_port": 80}
            for n in range(99)
        ),
        {"action": "allow", "src": "10.0.0.0/8"},
    ]
}

NAT: dict[str, Any] = {"public": ["203.0.113.1"]}

QOS: dict[str, Any] = {
    "rate_bps": 400_000_000_000,
    "classes": [
        {"name": "voice", "dscp": [46], "priority": 0},
        {
            "name": "best",
            "weight": 1,
            "meter": {
                "cir_bps": 200_000_000_000,
                "cbs": 1_000_000,
                "pir_bps": 400_000_000_000,
                "pbs": 1_000_000,
            },
        },
    ],
}

DPI: dict[str, Any] = {
    "rules": [
        {"protocol": "BitTorrent", "action": "drop"},
        {"protocol": "YouTube", "action": "mark", "dscp": 10},
    ]
}

BNG: dict[str, Any] = {
    "access": "a",
    "core": "b",
    "core_address": "192.0.2.1",
    "tunnel_remote": "192.0.2.2",
    "core_next_hop_mac": PEER["b"],
    "subscribers": [{"s_vid": 100, "c_vid": 1, "count": FLOWS, "address": "100.64.1.0"}],
}

GCM: dict[str, Any] = {"suite": "aes-gcm", "key": "00" * 16, "salt": "00" * 4}
CBC: dict[str, Any] = {"suite": "aes-cbc-hmac-sha1", "key": "00" * 16, "auth_key": "00" * 20}


def station(keys: dict[str, Any], *, gateway: bool = False) -> dict[str, Any]:
    """A base station for 1000 users, or its gateway: the ends, keys and tunnels exchanged.

    Frames are sent repeatedly, so there is no replay window.
    """
    ends = ["192.0.2.1", "192.0.2.2"]
    tunnel = ["10.255.0.1", "10.255.0.2"]
    spi = [256, 257]
    if gateway:
        for pair in (ends, tunnel, spi):
            pair.reverse()
    first = (OUTSIDE if gateway else INSIDE) + 1
    return {
        "radio": "a",
        "core": "b",
        "core_address": ends[0],
        "security_gateway": ends[1],
        "core_next_hop_mac": MAC["b"] if gateway else PEER["b"],
        "gtpu_address": tunnel[0],
        "serving_gateway": tunnel[1],
        "uplink": {"spi": spi[0], **keys},
        "downlink": {"spi": spi[1], "replay_window": 0, **keys},
        "users": [
            {
                "address": str(ipaddress.IPv4Address(first)),
                "count": FLOWS,
                "uplink_teid": 1,
                "downlink_teid": 1,
            }
        ],
    }


def from_core(keys: dict[str, Any]) -> MakeFrames:
    """Frames from the gateway to the 1000 users; `length` is that of the user's own frame."""

    def make(length: int) -> Bytes:
        users = plain(entry="b")(length)
        users[:, 0:6] = np.frombuffer(mac(MAC["a"]), np.uint8)
        return encrypted(station(keys, gateway=True), users, (MAC["a"], PEER["b"]))

    return make


INNER = "sizes are of the frame within the tunnel"

CASES: Sequence[Case] = (
    Case("sink", "sink", plain(), transmits=None, note="what source and driver cost"),
    Case("source", "source", None, {"flows": FLOWS}, transmits=None),
    Case("pass", "pass", plain()),
    Case("pass-swap", "pass", plain(), {"mac": "swap"}),
    Case("bridge", "bridge", bridged("a"), warm_up=("b", bridged("b"))),
    Case("router", "router", plain(spread=256), ROUTER),
    Case("router-ipv6", "router", ipv6, ROUTER6),
    Case("firewall", "firewall", plain(), FIREWALL),
    Case("nat", "nat", plain(), {"inside": "a", "outside": "b", **NAT}),
    Case("dpi", "dpi", plain(), DPI, note="flows decided; the first packets of a flow cost more"),
    Case("qos", "qos", plain(), QOS),
    Case(
        "cpe",
        "cpe",
        plain(),
        {
            "inside": "a",
            "outside": "b",
            "firewall": {
                "rules": [{**rule, "from": "inside"} for rule in FIREWALL["rules"]],
            },
            "dpi": DPI,
            "nat": NAT,
            "qos": QOS,
        },
    ),
    Case("bng-up", "bng", tagged, BNG),
    Case("bng-down", "bng", in_gre, BNG, entry="b", warm_up=("a", tagged), note=INNER),
    Case("basestation-up", "basestation", plain(), station(GCM), note="AES-128-GCM; " + INNER),
    Case(
        "basestation-down",
        "basestation",
        from_core(GCM),
        station(GCM),
        entry="b",
        warm_up=("a", plain()),
        note="AES-128-GCM; " + INNER,
    ),
    Case(
        "basestation-cbc-up",
        "basestation",
        plain(),
        station(CBC),
        note="AES-128-CBC, HMAC-SHA1; " + INNER,
    ),
    Case(
        "basestation-cbc-down",
        "basestation",
        from_core(CBC),
        station(CBC),
        entry="b",
        warm_up=("a", plain()),
        note="AES-128-CBC, HMAC-SHA1; " + INNER,
    ),
    Case("cpu", "cpu", plain(), {"units": 10}),
    Case("memory", "memory", plain(), {"bytes": 64, "working_set": 1 << 20}),
)
