# SPDX-License-Identifier: Apache-2.0
"""An SR-IOV adapter of veth pairs: /sys as the kernel shows one, and tc-flower's filters on it.

The pairs are virtual functions and their representors. `apply` stands in place of the program tc:
it reads the same text, and what a filter says is done to frames by a thread here.
"""

from __future__ import annotations

import os
import select
import shlex
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from headrace.switches import sriov, tc
from headrace.switches.base import SwitchError
from tests.node.wire import Wire
from tests.support.veth import VethPair

_PROTOCOLS = {"ip": 0x0800, "ipv6": 0x86DD, "arp": 0x0806, "mpls_uc": 0x8847, "802.1q": 0x8100}
_NUMBERS = {"tcp": 6, "udp": 17, "icmp": 1, "icmpv6": 58, "sctp": 132}


@dataclass
class Filter:
    """A filter: its keys, and its actions word by word."""

    pref: int
    protocol: str
    keys: dict[str, str]
    actions: list[list[str]]


@dataclass
class Device:
    """A representor with the filters of its ingress, by chain."""

    wire: Wire
    chains: dict[int, list[Filter]] = field(default_factory=dict)


class FakeNic:
    """`functions` virtual functions of a physical one; use as a context manager."""

    def __init__(self, sysfs: Path, functions: int) -> None:
        self.sysfs, self._functions = sysfs, functions
        self.devices: dict[str, Device] = {}
        self.commands: list[str] = []
        self._lock = threading.RLock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._forward, daemon=True)
        self._stack = ExitStack()
        self.pf = ""

    def __enter__(self) -> FakeNic:
        net = self.sysfs / "class/net"
        pairs = [self._stack.enter_context(VethPair()) for _ in range(self._functions + 1)]
        self.pf = pairs[0].near
        for number, pair in enumerate(pairs, -1):
            place = net / pair.near
            place.mkdir(parents=True)
            (place / "phys_switch_id").write_text("c0ffee\n")
            (place / "phys_port_name").write_text("p0\n" if number < 0 else f"pf0vf{number}\n")
        self._pairs = pairs
        self.refresh()
        self._before = tc.apply
        tc.apply = self.apply
        self._rename = sriov._rename
        sriov._rename = self._renamed
        self._thread.start()
        return self

    def refresh(self) -> None:
        """Shows what the interfaces of the functions are called now."""
        for number, pair in enumerate(self._pairs[1:]):
            place = self.sysfs / "class/net" / self.pf / "device" / f"virtfn{number}" / "net"
            place.mkdir(parents=True, exist_ok=True)
            for old in place.iterdir():
                old.unlink()
                (self.sysfs / "class/net" / old.name).rmdir()
            index = int(Path(f"/sys/class/net/{pair.near}/iflink").read_text())
            for name in os.listdir("/sys/class/net"):
                with suppress(OSError):
                    if int(Path(f"/sys/class/net/{name}/ifindex").read_text()) == index:
                        (place / name).touch()
                        (self.sysfs / "class/net" / name).mkdir(exist_ok=True)

    def __exit__(self, *_: object) -> None:
        tc.apply = self._before
        sriov._rename = self._rename
        self._ended.set()
        self._thread.join()
        for device in self.devices.values():
            device.wire.__exit__()
        self._stack.close()

    def _renamed(self, device: str, name: str) -> None:
        self._rename(device, name)
        self.refresh()

    # tc.

    async def apply(self, commands: Sequence[str], *, forgiving: bool = False) -> None:
        """As headrace.switches.tc.apply."""
        with self._lock:
            for command in commands:
                self.commands.append(command)
                try:
                    self._one(shlex.split(command))
                except (KeyError, ValueError) as error:
                    if not forgiving:
                        raise SwitchError(f"tc: {command}: {error!r}") from error

    def _one(self, words: list[str]) -> None:
        kind, verb, _, name = words[:4]
        if kind == "qdisc":
            assert words[4:] == ["clsact"]
            if verb == "del":
                self.devices.pop(name).wire.__exit__()
            elif name not in self.devices:
                self.devices[name] = Device(Wire(name))
            return
        device = self.devices[name]
        assert words[4:6] == ["ingress", "chain"], words
        chain = int(words[6])
        if verb == "del":
            del device.chains[chain]
            return
        assert words[7] == "pref"
        rest = words[9:]
        if rest[0] == "handle":
            rest = rest[2:]
        assert rest[0] == "protocol" and rest[2] == "flower", words
        at = rest.index("action")
        keys = [word for word in rest[3:at] if word != "skip_sw"]
        actions: list[list[str]] = []
        for word in rest[at:]:
            if word == "action":
                actions.append([])
            else:
                actions[-1].append(word)
        made = Filter(
            int(words[8]), rest[1], dict(zip(keys[::2], keys[1::2], strict=True)), actions
        )
        others = [f for f in device.chains.get(chain, []) if f.pref != made.pref]
        if verb == "add" and len(others) < len(device.chains.get(chain, [])):
            raise ValueError("File exists")
        device.chains[chain] = sorted([*others, made], key=lambda f: f.pref)

    # Packets.

    def _forward(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                wires = {device.wire._socket: device for device in self.devices.values()}
            try:
                ready, _, _ = select.select(list(wires), [], [], 0.02)
            except (OSError, ValueError):
                continue
            with self._lock:
                for each in ready:
                    device = wires[each]
                    if device in self.devices.values():
                        with suppress(OSError):
                            self._classify(device, device.wire._next())

    def _classify(self, device: Device, frame: bytes) -> None:
        chain: int | None = 0
        while chain is not None:
            here, chain = chain, None
            for each in device.chains.get(here, []):
                if _matches(each, frame):
                    chain = self._act(each, frame)
                    break

    def _act(self, each: Filter, frame: bytes) -> int | None:
        for action in each.actions:
            match action:
                case ["goto", "chain", number]:
                    return int(number)
                case ["drop"]:
                    return None
                case ["mirred", "egress", _, "dev", name, *_]:
                    self.devices[name].wire.send(frame)
                case ["vlan", "pop", "pipe"]:
                    frame = frame[:12] + frame[16:]
                case ["vlan", "push", "id", tag, "pipe"]:
                    frame = frame[:12] + struct.pack("!HH", 0x8100, int(tag)) + frame[12:]
                case ["pedit", "ex", "munge", header, name, "set", value, "pipe"]:
                    frame = _edited(frame, header, name, value)
                case ["csum", *_]:
                    frame = _summed(frame)
                case _:
                    raise AssertionError(action)
        return None


def _headers(frame: bytes) -> Iterator[tuple[str, Any]]:
    """What flower would find in a frame, by its own names."""
    at, tags = 12, []
    (kind,) = struct.unpack_from("!H", frame, at)
    outer = kind
    while kind == 0x8100:
        tags.append(struct.unpack_from("!H", frame, at + 2)[0])
        at += 4
        (kind,) = struct.unpack_from("!H", frame, at)
    at += 2
    yield "protocol", outer
    yield "kind", kind
    yield "num_of_vlans", len(tags)
    if tags:
        yield "vlan_id", tags[0] & 0xFFF
        yield "vlan_prio", tags[0] >> 13
    yield "dst_mac", frame[:6]
    yield "src_mac", frame[6:12]
    upper = None
    if kind == 0x0800:
        yield "ip_tos", frame[at + 1]
        upper, yields = frame[at + 9], ((12, 4), (16, 4))
        end = at + 4 * (frame[at] & 0xF)
    elif kind == 0x86DD:
        yield "ip_tos", (frame[at] & 0xF) << 4 | frame[at + 1] >> 4
        upper, yields = frame[at + 6], ((8, 16), (24, 16))
        end = at + 40
    elif kind == 0x0806:
        for name, place, size in (
            ("arp_op", 6, 2), ("arp_sha", 8, 6), ("arp_sip", 14, 4), ("arp_tha", 18, 6),
            ("arp_tip", 24, 4),
        ):  # fmt: skip
            yield name, frame[at + place : at + place + size]
    elif kind == 0x8847:
        (label,) = struct.unpack_from("!I", frame, at)
        yield "mpls_label", label >> 12
        yield "mpls_tc", label >> 9 & 7
    if upper is not None:
        yield "ip_proto", upper
        yield "l3", at
        yield "l4", end
        for name, (place, size) in zip(("src_ip", "dst_ip"), yields, strict=True):
            yield name, frame[at + place : at + place + size]
        if upper in (6, 17, 132):
            yield "src_port", struct.unpack_from("!H", frame, end)[0]
            yield "dst_port", struct.unpack_from("!H", frame, end + 2)[0]
        elif upper in (1, 58):
            yield "type", frame[end]
            yield "code", frame[end + 1]


def _matches(each: Filter, frame: bytes) -> bool:
    found = dict(_headers(frame))
    if each.protocol != "all":
        wanted = _PROTOCOLS.get(each.protocol) or int(each.protocol, 16)
        if found["protocol"] != wanted:
            return False
    for name, text in each.keys.items():
        if name == "vlan_ethtype":
            if found["kind"] != (_PROTOCOLS.get(text) or int(text, 16)):
                return False
            continue
        if name not in found or not _same(name, found[name], text):
            return False
    return True


def _same(name: str, value: Any, text: str) -> bool:
    if name == "ip_proto":
        return bool(value == (_NUMBERS.get(text) or int(text)))
    if name == "ip_tos":
        wanted, mask = (int(part, 16) for part in text.split("/"))
        return bool(value & mask == wanted)
    if name.endswith(("_mac", "_sha", "_tha")):
        parts = [bytes.fromhex(part.replace(":", "")) for part in text.split("/")]
        mask_bytes = parts[1] if len(parts) > 1 else b"\xff" * 6
        return all(a & m == b & m for a, b, m in zip(value, parts[0], mask_bytes, strict=True))
    if name.endswith("_ip") or name in ("arp_sip", "arp_tip"):
        return bool(value == ip_address(text).packed)
    if name == "arp_op":
        return bool(value == struct.pack("!H", int(text)))
    return bool(value == int(text))


def _edited(frame: bytes, header: str, name: str, value: str) -> bytes:
    found, octets = dict(_headers(frame)), bytearray(frame)
    if header == "eth":
        at, new = {"dst": 0, "src": 6}[name], bytes.fromhex(value.replace(":", ""))
    elif header in ("ip", "ip6"):
        places = {"ip": {"src": 12, "dst": 16}, "ip6": {"src": 8, "dst": 24}}
        at, new = found["l3"] + places[header][name], ip_address(value).packed
    else:
        at, new = found["l4"] + {"sport": 0, "dport": 2}[name], struct.pack("!H", int(value))
    octets[at : at + len(new)] = new
    return bytes(octets)


def _sum(data: bytes) -> int:
    data += b"\0" * (len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _summed(frame: bytes) -> bytes:
    """With the checksums of IPv4, TCP and UDP computed anew."""
    found, octets = dict(_headers(frame)), bytearray(frame)
    l3, l4 = found["l3"], found["l4"]
    if found["kind"] == 0x0800:
        (total,) = struct.unpack_from("!H", octets, l3 + 2)
        end = l3 + total
        octets[l3 + 10 : l3 + 12] = b"\0\0"
        octets[l3 + 10 : l3 + 12] = struct.pack("!H", _sum(bytes(octets[l3:l4])))
        addresses = bytes(octets[l3 + 12 : l3 + 20])
    else:
        (length,) = struct.unpack_from("!H", octets, l3 + 4)
        end = l3 + 40 + length
        addresses = bytes(octets[l3 + 8 : l3 + 40])
    place = {6: 16, 17: 6}.get(found["ip_proto"])
    if place is not None:
        octets[l4 + place : l4 + place + 2] = b"\0\0"
        pseudo = addresses + struct.pack("!II", end - l4, found["ip_proto"])
        octets[l4 + place : l4 + place + 2] = struct.pack(
            "!H", _sum(pseudo + bytes(octets[l4:end])) or 0xFFFF
        )
    return bytes(octets)
