# SPDX-License-Identifier: Apache-2.0
"""The datacentre gateway in both directions (D5.6, section 3.1.1): rules and frames.

Up: a virtual IP selects a group; its buckets are the servers behind it, each reached through a
VXLAN tunnel. Down: the tunnel is removed, the VNI selects the tenant, the Ethernet header is
rewritten.

Headrace does either in one pass of one bridge, by its push and pop actions. OVS lacks these; its
best equivalent is a tunnel port with `remote_ip=flow` and `key=flow`, terminated in userspace by a
second bridge that has the local address, as its manual describes for OVS-DPDK. Both select methods
of OVS are tried (`dp_hash` recirculates; `hash` makes a megaflow per flow).
"""

import ipaddress
from dataclasses import dataclass

import numpy as np

from headrace.bench.peers import frames
from headrace.bench.peers.cases.case import (
    ROUTER_MAC,
    SEED,
    SENDER_MAC,
    SINK,
    SOURCE,
    Case,
    Overlay,
)
from headrace.bench.peers.frames import Bytes
from headrace.protocols.tunnel_actions import Kind, PopTunnel, PushTunnel

LOCAL_IP = ipaddress.IPv4Address("172.31.255.1")
LOCAL_MAC = "02:00:00:00:fe:01"
TUNNEL = 10  # OVS's tunnel port
VIRTUAL_IPS = 100
BACKENDS = 8  # behind each virtual IP
HOSTS = 100  # of the backends
TENANTS = 100  # VNIs
FIRST_VNI = 5000

OVS_EQUIVALENT = (
    "OVS pushes and pops VXLAN by a tunnel port only (remote_ip=flow, key=flow), ended in "
    "userspace by a second bridge with the local address and by neighbors set by hand; its "
    "push:vxlan action (OpenFlow 1.5 encap/decap) knows Ethernet, NSH and MPLS, not VXLAN. Both "
    "select methods are tried: dp_hash recirculates, hash makes a megaflow per flow"
)


@dataclass(frozen=True)
class Host:
    """A machine at the other end of a tunnel."""

    number: int

    @property
    def ip(self) -> ipaddress.IPv4Address:
        """Its address, in the gateway's subnet."""
        return ipaddress.IPv4Address(int(LOCAL_IP) + 1 + self.number)

    @property
    def mac(self) -> str:
        """Its address on the underlay."""
        return frames.mac_text(0x30000 + self.number)


def _hosts() -> list[Host]:
    return [Host(number) for number in range(HOSTS)]


def _virtual_ip(number: int) -> ipaddress.IPv4Address:
    return ipaddress.IPv4Address(0x0A000000 + number)


def _entry(number: int) -> str:
    return f"priority=10,in_port={SOURCE},ip,nw_dst={_virtual_ip(number)},actions=group:{number}"


def _groups(method: str, overlay: bool) -> list[str]:
    groups = []
    for group in range(VIRTUAL_IPS):
        buckets = []
        for backend in range(BACKENDS):
            machine = group * BACKENDS + backend
            host, vni = Host(machine % HOSTS), FIRST_VNI + group % TENANTS
            rewrite = f"set_field:{frames.mac_text(0x20000 + machine)}->eth_dst"
            if overlay:
                send = f"set_field:{vni}->tun_id,set_field:{host.ip}->tun_dst,output:{TUNNEL}"
            else:
                push = PushTunnel(Kind.VXLAN, LOCAL_IP, host.ip, LOCAL_MAC, host.mac, vni)
                send = f"{push.note()},output:{SINK}"
            buckets.append(f"bucket=weight:1,actions={rewrite},{send}")
        groups.append(f"group_id={group},type=select,{method}{','.join(buckets)}")
    return groups


def gateway_up(flows: int, goal: float) -> Case:
    """Virtual IP, select group, VXLAN push."""

    def rules() -> list[str]:
        return [_entry(number) for number in range(VIRTUAL_IPS)]

    def make() -> Bytes:
        random = np.random.default_rng(SEED)
        return frames.udp_frames(
            eth_dst=frames.mac(ROUTER_MAC),
            eth_src=frames.mac(SENDER_MAC),
            ipv4_src=random.integers(0xC0000000, 0xC0FFFFFF, flows).astype(np.uint32),
            ipv4_dst=(0x0A000000 + np.arange(flows) % VIRTUAL_IPS).astype(np.uint32),
        )

    overlay = Overlay(
        address=str(LOCAL_IP),
        mac=LOCAL_MAC,
        neighbors=[(str(host.ip), host.mac) for host in _hosts()],
        tunnel=TUNNEL,
        source_below=False,
        rules=rules,
        rules_below=lambda: [f"in_port=LOCAL,actions=output:{SINK}"],
        groups={
            "select by dp_hash": lambda: _groups("selection_method=dp_hash,", overlay=True),
            "select by hash": lambda: _groups(
                "selection_method=hash,fields(ip_src,ip_dst),", overlay=True
            ),
        },
    )
    return Case(
        f"gateway-up-{flows // 1000}kflows",
        flows,
        rules,
        make,
        goal,
        groups=lambda: _groups("", overlay=False),
        overlay=overlay,
    )


def _tenant_rules(table: int, match: str) -> list[str]:
    return [
        f"table={table},priority=10,{match}tun_id={FIRST_VNI + tenant},ip,"
        f"actions=set_field:{ROUTER_MAC}->eth_src,"
        f"set_field:{frames.mac_text(0x40000 + tenant)}->eth_dst,dec_ttl,output:{SINK}"
        for tenant in range(TENANTS)
    ]


def gateway_down(flows: int, goal: float) -> Case:
    """VXLAN pop, VNI, rewrite."""

    def rules() -> list[str]:
        pop = (
            f"table=0,priority=10,in_port={SOURCE},udp,nw_dst={LOCAL_IP},udp_dst=4789,"
            f"actions={PopTunnel(Kind.VXLAN).note()},goto_table:1"
        )
        return [pop, *_tenant_rules(1, "")]

    def make() -> Bytes:
        random = np.random.default_rng(SEED)
        number = np.arange(flows)
        inner = frames.udp_frames(
            eth_dst=frames.mac(ROUTER_MAC),
            eth_src=frames.mac(SENDER_MAC),
            ipv4_src=random.integers(0x0A000000, 0x0A0FFFFF, flows).astype(np.uint32),
            ipv4_dst=random.integers(0xC0000000, 0xC0FFFFFF, flows).astype(np.uint32),
        )
        hosts = np.array([int(host.ip) for host in _hosts()], dtype=np.uint32)
        return frames.vxlan_frames(
            inner=inner,
            vni=(FIRST_VNI + number % TENANTS).astype(np.uint32),
            eth_dst=frames.mac(LOCAL_MAC),
            eth_src=frames.mac(SENDER_MAC),
            ipv4_src=hosts[number // TENANTS % HOSTS],
            ipv4_dst=np.full(flows, int(LOCAL_IP), dtype=np.uint32),
            udp_src=random.integers(49152, 65535, flows).astype(np.uint32),
        )

    overlay = Overlay(
        address=str(LOCAL_IP),
        mac=LOCAL_MAC,
        neighbors=[],
        tunnel=TUNNEL,
        source_below=True,
        rules=lambda: _tenant_rules(0, f"in_port={TUNNEL},"),
        rules_below=lambda: [f"in_port={SOURCE},actions=LOCAL"],
        groups={},
    )
    return Case(f"gateway-down-{flows // 1000}kflows", flows, rules, make, goal, overlay=overlay)


def all_cases() -> list[Case]:
    """Both ways."""
    return [gateway_up(10_000, 3.0), gateway_down(10_000, 3.0)]
