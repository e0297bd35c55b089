# SPDX-License-Identifier: Apache-2.0
"""Controllers as processes of their own: os-ken's, one that stands still, one that floods."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.frames import udp_frame
from tests.support.switch import Switch, running_switch
from tests.support.veth import RawPort, VethPair

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

BRIDGE = f"con{os.getpid()}"
HOSTS = (1, 2, 3)
FRAMES = 500


def address(host: int) -> str:
    """The MAC address of a host."""
    return f"02:00:00:00:00:{host:02x}"


def frame(source: int, destination: int, number: int = 0) -> bytes:
    """A frame between two hosts."""
    return udp_frame(eth_src=address(source), eth_dst=address(destination), udp_src=1024 + number)


class Network:
    """A bridge with three hosts behind veth pairs; its controller is to listen at `port`."""

    def __init__(self, switch: Switch, port: int, hosts: dict[int, RawPort]) -> None:
        self.switch = switch
        self.port = port
        self.hosts = hosts

    def flows(self) -> str:
        """The flows of all tables."""
        return self.switch.ofctl("dump-flows", BRIDGE, "--no-stats")

    def wait_for_flow(self, text: str) -> None:
        """Waits until there is such a flow."""
        end = time.monotonic() + 30
        while text not in (flows := self.flows()):
            assert time.monotonic() < end, flows
            time.sleep(0.05)

    def cross(self, source: int, destination: int, count: int = FRAMES) -> int:
        """Sends frames from host to host, few at a time; how many arrived."""
        arrived = 0
        for number in range(0, count, 50):
            for each in range(number, min(count, number + 50)):
                self.hosts[source].send(frame(source, destination, each))
            arrived += len(self.hosts[destination].receive(min(50, count - number)))
        return arrived


@contextmanager
def controller(program: str, network: Network, log: Path) -> Iterator[Daemon]:
    """A controller program at the network's port, connected."""
    running = Daemon(
        [sys.executable, "-m", f"tests.openflow.controllers.{program}", str(network.port)], log
    )
    try:
        running.wait_until(
            lambda: network.switch.vsctl("get", "Controller", BRIDGE, "is_connected") == "true"
        )
        yield running
    finally:
        running.stop(signal.SIGKILL)


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    with ExitStack() as stack:
        switch = stack.enter_context(running_switch(tmp_path, extra=("--no-huge",)))
        switch.vsctl("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "fail-mode=secure")
        hosts = {}
        for number in HOSTS:
            pair = stack.enter_context(VethPair())
            hosts[number] = RawPort(pair.far)
            stack.callback(hosts[number].close)
            switch.vsctl(
                *("add-port", BRIDGE, pair.near, "--", "set", "Interface", pair.near),
                *("type=system", f"ofport_request={number}"),
            )
        switch.vsctl("set-controller", BRIDGE, f"tcp:127.0.0.1:{port}")
        yield Network(switch, port, hosts)


def test_a_learning_switch_of_os_ken(network: Network, tmp_path: Path) -> None:
    with controller("learning_switch", network, tmp_path / "controller.log"):
        network.wait_for_flow("priority=0 actions=CONTROLLER:128")
        hosts = network.hosts
        # Unknown: to all but where it came from, whole, though the controller saw 128 octets.
        long = frame(1, 2) + bytes(600)
        hosts[1].send(long)
        assert hosts[2].receive(1) == hosts[3].receive(1) == [long]
        assert hosts[1].silence() == []
        # The answer makes a flow, which sends what waited in the switch's buffer.
        answer = frame(2, 1) + bytes(600)
        hosts[2].send(answer)
        assert hosts[1].receive(1) == [answer]
        network.wait_for_flow(f"dl_src={address(2)},dl_dst={address(1)} actions=output:1")
        hosts[1].send(frame(1, 2))
        assert hosts[2].receive(1) == [frame(1, 2)]
        network.wait_for_flow(f"dl_src={address(1)},dl_dst={address(2)} actions=output:2")
        # From now on the switch is alone with it.
        assert network.cross(1, 2) == network.cross(2, 1) == FRAMES
        assert hosts[3].silence() == []


def test_a_controller_that_stands_still_stalls_nobody(network: Network, tmp_path: Path) -> None:
    with controller("learning_switch", network, tmp_path / "controller.log") as running:
        network.wait_for_flow("actions=CONTROLLER:128")
        for source, destination in ((1, 2), (2, 1)):
            network.switch.ofctl(
                *("add-flow", BRIDGE),
                f"priority=5,in_port={source},dl_dst={address(destination)},"
                f"actions=output:{destination}",
            )
        os.kill(running.pid, signal.SIGSTOP)
        try:
            # These all go to the controller: more than the sockets hold.
            for _ in range(20):
                for number in range(500):
                    network.hosts[3].send(frame(3, 9, number))
                assert network.cross(1, 2, 50) == network.cross(2, 1, 50) == 50
            assert "in_port=1" in network.flows()
            network.switch.ofctl("add-flow", BRIDGE, "table=9,priority=9,actions=drop")
            network.switch.vsctl("add-br", f"{BRIDGE}x")
        finally:
            os.kill(running.pid, signal.SIGCONT)
        # It is served again: what it floods arrives.
        end = time.monotonic() + 60
        reached = False
        while not reached:
            assert time.monotonic() < end
            network.hosts[3].send(frame(3, 8))
            reached = frame(3, 8) in network.hosts[1].receive(1 << 30, 0.5)


def test_a_controller_that_floods_stalls_nobody(network: Network, tmp_path: Path) -> None:
    with controller("flooding_controller", network, tmp_path / "controller.log"):
        for source, destination in ((1, 2), (2, 1)):
            network.switch.ofctl(
                *("add-flow", BRIDGE, f"in_port={source},actions=output:{destination}")
            )
        flood = 0
        for _ in range(10):
            assert network.cross(1, 2, 50) == network.cross(2, 1, 50) == 50
            table = network.switch.ofctl("dump-tables", BRIDGE)
            assert "active=2" in table
            flood += "in_port=1" in network.flows()
            network.switch.vsctl("set", "Bridge", BRIDGE, f"external_ids:round={flood}")
        assert flood == 10
        assert network.switch.vsctl("get", "Controller", BRIDGE, "is_connected") == "true"
