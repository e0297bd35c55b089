# SPDX-License-Identifier: Apache-2.0
"""The switches between the two hosts, each with its own pair of them."""

import os
import shutil
import subprocess
import time
from abc import ABC, abstractmethod

from headrace.bench.peers.bed import CONTROL_CORE, WORKER_CORE
from headrace.bench.peers.switches import Headrace, OpenVSwitchLike
from headrace.bench.peers.systems import PeerError, Place, run
from headrace.bench.tcp.hosts import Hosts
from headrace.machine.programs import find_program

BRIDGE = "br0"
READY_S = 15.0


class Subject(ABC):
    """One switch that joins the ports of a pair of hosts."""

    name: str
    host_cores = str(CONTROL_CORE)  # the switch has the other one

    @abstractmethod
    def start(self, hosts: Hosts) -> None:
        """Starts it and joins the hosts; PeerError if it does not come up."""

    @abstractmethod
    def stop(self) -> None:
        """Ends it."""

    @abstractmethod
    def park(self) -> None:
        """It is not measured for now, and is to leave the cores to the others."""

    @abstractmethod
    def resume(self) -> None:
        """It is measured next."""


class HeadraceSubject(Subject):
    """headrace-switch, veths as ports of type system."""

    name = "headrace"

    def __init__(self, place: Place) -> None:
        """Nothing is started yet."""
        self._switch = Headrace(place, find_program("headrace-switch"))

    def start(self, hosts: Hosts) -> None:
        """Starts the switch and adds the ports."""
        self._switch.start()
        _add_ports(self._switch, hosts)

    def stop(self) -> None:
        """Ends switch and database."""
        self._switch.stop()

    def park(self) -> None:
        """Its worker polls: it is stopped."""
        self._switch.park()

    def resume(self) -> None:
        """Lets it go on."""
        self._switch.resume()


class _OvsNetdev(OpenVSwitchLike):
    name = "ovs-netdev"

    def start(self) -> None:
        self.start_database()
        program = shutil.which("ovs-vswitchd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
        if program is None:
            raise PeerError("ovs-vswitchd is not installed (package openvswitch-switch)")
        control = self.rundir / "ovs.ctl"
        on_core = ("taskset", "-c", str(self.place.worker_core))
        self.spawn("vswitchd", *on_core, program, f"unix:{self.socket}", f"--unixctl={control}")
        self.wait_for("ovs-vswitchd", control)


class OvsNetdevSubject(Subject):
    """Open vSwitch's userspace datapath without DPDK."""

    name = "ovs-netdev"

    def __init__(self, place: Place) -> None:
        """Nothing is started yet."""
        self._switch = _OvsNetdev(place)

    def start(self, hosts: Hosts) -> None:
        """Starts Open vSwitch and adds the ports; it takes only packets with checksums."""
        hosts.leave_nothing_to_the_device()
        self._switch.start()
        _add_ports(self._switch, hosts)

    def stop(self) -> None:
        """Ends switch and database."""
        self._switch.stop()

    def park(self) -> None:
        """Stops it, as the others."""
        self._switch.park()

    def resume(self) -> None:
        """Lets it go on."""
        self._switch.resume()


class BridgeSubject(Subject):
    """The kernel's own bridge."""

    name = "linux-bridge"
    host_cores = f"{CONTROL_CORE},{WORKER_CORE}"  # it works in its senders' context

    def __init__(self) -> None:
        """Nothing is made yet."""
        self._bridge = f"hrtb{os.getpid() % 100000}"

    def start(self, hosts: Hosts) -> None:
        """Makes the bridge and adds the ports."""
        run("ip", "link", "add", self._bridge, "type", "bridge")
        run("ip", "link", "set", self._bridge, "addrgenmode", "none", "up")
        for port in hosts.ports:
            run("ip", "link", "set", port, "master", self._bridge)

    def stop(self) -> None:
        """Removes the bridge."""
        subprocess.run(["ip", "link", "del", self._bridge], check=False, capture_output=True)  # noqa: S603, S607

    def park(self) -> None:
        """It does nothing while nothing is sent."""

    def resume(self) -> None:
        """Nothing to do."""


def _add_ports(switch: OpenVSwitchLike, hosts: Hosts) -> None:
    words = ["add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev"]
    for port in hosts.ports:
        words += ["--", "add-port", BRIDGE, port]
    switch.vsctl(*words)
    deadline = time.monotonic() + READY_S
    for port in hosts.ports:
        while switch.vsctl("get", "Interface", port, "link_state").strip() != "up":
            if time.monotonic() > deadline:
                raise PeerError(f"{switch.name}: {port} does not come up; {switch.last_words()}")
            time.sleep(0.05)


def subjects(place: Place) -> list[Subject]:
    """All that are compared, Headrace first."""
    return [HeadraceSubject(place), OvsNetdevSubject(place), BridgeSubject()]
