# SPDX-License-Identifier: Apache-2.0
"""Pipelines that pass state from table to table, or rewrite several fields: metadata, DSCP, NAT."""

import ipaddress

import numpy as np

from headrace.bench.peers import frames
from headrace.bench.peers.cases.case import (
    ROUTER_MAC,
    SENDER_MAC,
    SINK,
    SOURCE,
    Case,
    random_numbers,
    short,
)
from headrace.bench.peers.frames import Bytes

FIRST_STATION = 0x10000
CUSTOMERS = 100
CLASSES = 8  # of service: the DSCPs of CS0 to CS7
PRIVATE, SERVER, PUBLIC = 0x0A000000, 0xC0000000, 0xCB007100


def metadata(tables: int, flows: int, goal: float) -> Case:
    """A pipeline of `tables` tables; each matches the metadata written by the one before.

    The first matches MAC addresses, the last sends.
    """

    def number(flow: int, table: int) -> int:
        """The metadata that `table` matches: different in each table."""
        return (flow * 7 + table * 13) % flows + 1

    def rules() -> list[str]:
        made = []
        for flow in range(flows):
            station = frames.mac_text(FIRST_STATION + flow)
            match = f"eth_dst={station}"
            for table in range(tables - 1):
                written = number(flow, table + 1)
                made.append(
                    f"table={table},priority=10,{match},"
                    f"actions=write_metadata:{written},goto_table:{table + 1}"
                )
                match = f"metadata={written}"
            made.append(f"table={tables - 1},priority=10,{match},actions=output:{SINK}")
        return made

    def make() -> Bytes:
        texts = (frames.mac_text(FIRST_STATION + i) for i in range(flows))
        return frames.udp_frames(
            eth_dst=np.array([list(frames.mac(text)) for text in texts], dtype=np.uint8),
            eth_src=frames.mac(SENDER_MAC),
            ipv4_src=np.full(flows, 0xC0A80001, dtype=np.uint32),
            ipv4_dst=(0x0A000000 + np.arange(flows)).astype(np.uint32),
        )

    return Case(f"metadata-{tables}tables-{short(flows)}flows", flows, rules, make, goal)


def dscp(flows: int, goal: float) -> Case:
    """Table 0 sets each customer's DSCP; table 1 matches it, sets the next hop and sends."""

    def code_point(customer: int) -> int:
        return customer % CLASSES * 8

    def rules() -> list[str]:
        marks = [
            f"table=0,priority=10,in_port={SOURCE},ip,"
            f"nw_src={ipaddress.IPv4Network((PRIVATE + (i << 8), 24))},"
            f"actions=set_field:{code_point(i)}->ip_dscp,goto_table:1"
            for i in range(CUSTOMERS)
        ]
        hops = [
            f"table=1,priority=10,ip,ip_dscp={code_point(i)},"
            f"actions=set_field:{frames.mac_text(0x20000 + i)}->eth_dst,output:{SINK}"
            for i in range(CLASSES)
        ]
        return marks + hops

    def make() -> Bytes:
        random = random_numbers()
        customers = np.arange(flows) % CUSTOMERS
        return frames.udp_frames(
            eth_dst=frames.mac(ROUTER_MAC),
            eth_src=frames.mac(SENDER_MAC),
            ipv4_src=(PRIVATE + (customers << 8) + random.integers(0, 256, flows)).astype(
                np.uint32
            ),
            ipv4_dst=(SERVER + np.arange(flows)).astype(np.uint32),
        )

    return Case(f"dscp-goto-{short(flows)}flows", flows, rules, make, goal)


def nat(flows: int, goal: float) -> Case:
    """Source NAT: a rule for each five-tuple rewrites address, port and both MAC addresses."""

    def clients() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Address, port and server of each flow, no two alike."""
        random = random_numbers()
        number = np.arange(flows)
        ports = random.integers(1024, 65536, flows)
        return PRIVATE + number // 4, ports, SERVER + random.integers(0, 1000, flows)

    def rules() -> list[str]:
        made = []
        for i, (client, port, server) in enumerate(zip(*clients(), strict=True)):
            public = ipaddress.IPv4Address(PUBLIC + i // 60_000)
            made.append(
                f"priority=10,udp,nw_src={ipaddress.IPv4Address(int(client))},udp_src={port},"
                f"nw_dst={ipaddress.IPv4Address(int(server))},udp_dst=443,"
                f"actions=set_field:{public}->ip_src,set_field:{1024 + i % 60_000}->udp_src,"
                f"set_field:{ROUTER_MAC}->eth_src,"
                f"set_field:{frames.mac_text(0x20000 + i % 2000)}->eth_dst,output:{SINK}"
            )
        return made

    def make() -> Bytes:
        client, port, server = clients()
        made = frames.udp_frames(
            eth_dst=frames.mac(ROUTER_MAC),
            eth_src=frames.mac(SENDER_MAC),
            ipv4_src=client.astype(np.uint32),
            ipv4_dst=server.astype(np.uint32),
            udp_dst=443,
        )
        made[:, 34:36] = frames.be16(port)
        # With a checksum, which a rewrite must update.
        made[:, 40:42] = frames.udp_checksums(made)
        random_numbers().shuffle(made)
        return made

    return Case(f"nat-{short(flows)}rules-{short(flows)}flows", flows, rules, make, goal)


def all_cases() -> list[Case]:
    """Every one, in the order of the report."""
    return [metadata(10, 100, 2.5), dscp(10_000, 2.5), nat(10_000, 2.5)]
