# SPDX-License-Identifier: Apache-2.0
"""End-points in the host's own IP stack: addresses given and leased, and packets both ways."""

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyroute2 import IPRoute

from headrace.node.node import Node
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.test_openflow_e2e import bench_of
from tests.node.wire import Wire, udp
from tests.support.frames import checksum

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
]

HOST, PEER, SERVER = "10.77.0.1", "10.77.0.2", "10.77.0.3"
HOST_MAC, PEER_MAC = "02:00:00:00:77:01", "02:00:00:00:77:02"
ALLOWED = {"networks": ["10.77.0.0/16"]}
SWITCHES = ["ovs-dpdk", "headrace", "linux-bridge"]


def octets(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


@dataclass
class Attached:
    """A node and the wire to its p0."""

    node: Node
    wire: Wire

    async def deploy(self, kind: str, **options: str) -> None:
        point = {"id": "host", kind: options}
        document = graphs.document(
            [graphs.interface("in", "p0"), point],
            graphs.joined(("endpoint:in", "endpoint:host")),
        )
        change = self.node.graphs.update if self.node.graphs.records() else self.node.graphs.create
        await change("g", document)

    def status(self) -> graphs.Json:
        (point,) = self.node.status(self.node.graphs.record("g"))["end-points"]
        return dict(point)

    async def resolve(self) -> bytes:
        """The host's MAC address, by ARP; the host learns the peer's from the request."""
        request = b"\xff" * 6 + octets(PEER_MAC) + b"\x08\x06" + bytes.fromhex("0001080006040001")
        request += octets(PEER_MAC) + socket.inet_aton(PEER) + bytes(6) + socket.inet_aton(HOST)
        async with asyncio.timeout(20):
            while True:
                self.wire.send(request.ljust(60, b"\0"))
                for frame in await self.wire.receive(5, patience_s=0.3):
                    if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\2":
                        return frame[22:28]


@contextlib.asynccontextmanager
async def attached(start_node: StartNode, switch: str) -> AsyncIterator[Attached]:
    if switch != "linux-bridge":
        async with bench_of(start_node, switch, host_stack=ALLOWED) as bench:
            yield Attached(bench.node, bench.p0)
        return
    ports = [{"name": "p0", "kind": "veth"}]
    node = await start_node(switch=switch, ports=ports, host_stack=ALLOWED)
    interface = (await node.port_list())[0]["attach"]["iface"]
    with Wire(interface) as wire:
        yield Attached(node, wire)


def datagrams(frames: list[bytes], port: int, *, summed: bool) -> list[bytes]:
    """The payloads of UDP datagrams to `port`; if `summed`, their checksums must be right."""
    found = []
    for frame in frames:
        if frame[12:14] != b"\x08\x00" or frame[23] != 17:
            continue
        length = struct.unpack("!H", frame[38:40])[0]
        segment = frame[34 : 34 + length]
        if struct.unpack("!H", segment[2:4])[0] == port:
            pseudo = frame[26:34] + struct.pack("!HH", 17, length)
            assert not summed or checksum(pseudo + segment) == 0
            found.append(segment[8:])
    return found


def addresses_of(interface: str) -> list[str]:
    """The IPv4 addresses that the kernel has for an interface."""

    def read() -> list[str]:
        with IPRoute() as kernel:
            index = kernel.link_lookup(ifname=interface)[0]
            entries = kernel.get_addr(index=index, family=socket.AF_INET)
            return [entry.get_attr("IFA_ADDRESS") for entry in entries]

    with ThreadPoolExecutor(1) as thread:
        return thread.submit(read).result()


@pytest.mark.parametrize("switch", SWITCHES)
@pytest.mark.parametrize("kind", ["host-stack", "management"])
async def test_the_host_talks(start_node: StartNode, switch: str, kind: str) -> None:
    async with attached(start_node, switch) as at:
        await at.deploy(kind, configuration="static", IPv4=f"{HOST}/24", mac=HOST_MAC)
        assert at.status()["addresses"] == [f"{HOST}/24"]
        assert await at.resolve() == octets(HOST_MAC)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
            listener.bind((HOST, 0))
            listener.setblocking(False)
            port = listener.getsockname()[1]
            frame = udp(
                b"question" * 4,
                source_mac=PEER_MAC,
                dest_mac=HOST_MAC,
                source=PEER,
                dest=HOST,
                source_port=9000,
                dest_port=port,
            )
            loop = asyncio.get_running_loop()
            for _ in range(20):
                at.wire.send(frame)
                async with asyncio.timeout(5):
                    data, peer = await loop.sock_recvfrom(listener, 2000)
                assert (data, peer) == (b"question" * 4, (PEER, 9000))
                listener.sendto(b"answer" * 4, peer)
            frames = await at.wire.receive(30, patience_s=1.0)
            # The kernel's bridge leaves checksums to the device at the far end of the wire.
            summed = switch != "linux-bridge"
            assert datagrams(frames, 9000, summed=summed) == [b"answer" * 4] * 20
        # Another address takes the place of the first; both go with the graph.
        await at.deploy(kind, configuration="static", IPv4="10.77.1.1/24")
        interface = at.status()["interface"]
        assert addresses_of(interface) == ["10.77.1.1"]
        await at.node.graphs.delete("g")
        assert not (Path("/sys/class/net") / interface).exists()


class DhcpServer:
    """Answers DHCP on a wire with one address (RFC 2131), and notes what it is asked."""

    def __init__(self, wire: Wire, address: str, lease_s: int = 600) -> None:
        self._wire, self._address, self._lease_s = wire, address, lease_s
        self.asked: list[int] = []

    async def run(self) -> None:
        while True:
            for frame in await self._wire.receive(1, patience_s=0.2):
                if frame[23] == 17 and frame[36:38] == b"\0C":
                    self._answer(frame[42:])

    def _answer(self, request: bytes) -> None:
        options = dict(self._options(request[240:]))
        kind = options[53][0]
        self.asked.append(kind)
        if kind not in (1, 3):
            return
        reply = b"\2" + request[1:16] + socket.inet_aton(self._address)
        reply += socket.inet_aton(SERVER) + bytes(4) + request[28:44] + bytes(192) + b"c\x82Sc"
        for option, value in (
            (53, bytes([2 if kind == 1 else 5])),
            (54, socket.inet_aton(SERVER)),
            (51, struct.pack("!I", self._lease_s)),
            (1, socket.inet_aton("255.255.255.0")),
            (3, socket.inet_aton(SERVER)),
        ):
            reply += bytes([option, len(value)]) + value
        self._wire.send(to_client(reply + b"\xff"))

    @staticmethod
    def _options(data: bytes) -> list[tuple[int, bytes]]:
        found = []
        while data and data[0] != 255:
            if data[0] == 0:
                data = data[1:]
                continue
            found.append((data[0], data[2 : 2 + data[1]]))
            data = data[2 + data[1] :]
        return found


def to_client(payload: bytes) -> bytes:
    return udp(
        payload,
        source_mac=PEER_MAC,
        dest_mac="ff:ff:ff:ff:ff:ff",
        source=SERVER,
        dest="255.255.255.255",
        source_port=67,
        dest_port=68,
    )


@contextlib.asynccontextmanager
async def serving(server: DhcpServer) -> AsyncIterator[DhcpServer]:
    task = asyncio.create_task(server.run())
    try:
        yield server
    finally:
        task.cancel()


async def until(met: Callable[[], bool], patience_s: float = 20.0) -> None:
    deadline = asyncio.get_running_loop().time() + patience_s
    while not met():
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.05)


def has_default_route(interface: str) -> bool:
    routes = [line.split() for line in Path("/proc/net/route").read_text().splitlines()]
    return any(route[:2] == [interface, "00000000"] for route in routes)


@pytest.mark.parametrize("switch", SWITCHES)
async def test_a_lease(start_node: StartNode, switch: str) -> None:
    async with (
        attached(start_node, switch) as at,
        serving(DhcpServer(at.wire, "10.77.0.50")) as server,
    ):
        await at.deploy("host-stack", configuration="DHCP")
        await until(lambda: at.status()["addresses"] == ["10.77.0.50/24"])
        interface = at.status()["interface"]
        assert addresses_of(interface) == ["10.77.0.50"]
        assert server.asked[0] == 1 and 3 in server.asked
        assert not has_default_route(interface)
        # A node that is started again asks anew, and the address stays meanwhile.
        settings = at.node.config.model_dump(mode="json")
        await at.node.close()
        assert addresses_of(interface) == ["10.77.0.50"]
        at.node = await start_node(**settings)
        await until(lambda: at.status()["addresses"] == ["10.77.0.50/24"])
        await at.node.graphs.delete("g")
        await until(lambda: 7 in server.asked)  # DHCPRELEASE


async def test_a_server_gives_no_other_networks(start_node: StartNode) -> None:
    async with (
        attached(start_node, "headrace") as at,
        serving(DhcpServer(at.wire, "192.0.2.5")) as server,
    ):
        await at.deploy("host-stack", configuration="DHCP")
        await until(lambda: 3 in server.asked)
        await asyncio.sleep(0.3)
        assert addresses_of(at.status()["interface"]) == []


async def test_what_a_server_sends_ends_nothing(start_node: StartNode) -> None:
    async with attached(start_node, "headrace") as at:
        await at.deploy("host-stack", configuration="DHCP")
        interface = at.status()["interface"]
        for length in (0, 1, 100, 236, 240, 243):
            at.wire.send(to_client(bytes([2]) * length))
        async with serving(DhcpServer(at.wire, "10.77.0.50")):
            await until(lambda: addresses_of(interface) == ["10.77.0.50"], 40)
