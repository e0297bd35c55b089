# SPDX-License-Identifier: Apache-2.0
"""The switches between the two hosts, each with its own pair of them."""

import os
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path

from headrace.bench.peers.bed import CONTROL_CORE, WORKER_CORE
from headrace.bench.peers.switches import Headrace, OpenVSwitchLike, OvsDpdk
from headrace.bench.peers.systems import PeerError, Place, run
from headrace.bench.tcp.hosts import Guests, Hosts, VethHosts
from headrace.machine.programs import find_program

HEADRACE, OVS_NETDEV = "headrace", "ovs-netdev"
HEADRACE_VHOST, OVS_VHOST = "headrace-vhost", "ovs-dpdk-vhost"
BRIDGE = "br0"
READY_S = 15.0


class Subject(ABC):
    """One switch that joins the ports of a pair of hosts."""

    name: str
    note: str
    """What of its hosts is not as everybody's, and who has which core."""

    @abstractmethod
    def hosts(self, number: int) -> Hosts:
        """Its pair of hosts, which is nothing yet."""

    @abstractmethod
    def start(self) -> None:
        """Starts it with ports for the hosts; PeerError if it does not come up."""

    @abstractmethod
    def stop(self) -> None:
        """Ends it."""

    @abstractmethod
    def park(self) -> None:
        """It is not measured for now, and is to leave the cores to the others."""

    @abstractmethod
    def resume(self) -> None:
        """It is measured next."""


class SwitchSubject(Subject):
    """One that ovs-vsctl configures, in a process of its own."""

    def __init__(self, name: str, switch: OpenVSwitchLike, note: str) -> None:
        """Nothing is started yet."""
        self.name = name
        self.note = note
        self._switch = switch

    def stop(self) -> None:
        """Ends switch and database."""
        self._switch.stop()

    def park(self) -> None:
        """Its worker polls: it is stopped."""
        self._switch.park()

    def resume(self) -> None:
        """Lets it go on."""
        self._switch.resume()

    def _bridge(self, ports: tuple[tuple[str, str], ...]) -> None:
        """A bridge with ports of these names and kinds, "" for a kernel interface."""
        words = ["add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "datapath_type=netdev"]
        for port, kind in ports:
            words += ["--", "add-port", BRIDGE, port]
            if kind:
                words += ["--", "set", "Interface", port, f"type={kind}"]
        self._switch.vsctl(*words)


class VethSubject(SwitchSubject):
    """Veths as ports of type system."""

    def __init__(
        self, name: str, switch: OpenVSwitchLike, note: str, *, checksums: bool = False
    ) -> None:
        """`checksums`: the senders are to compute them."""
        super().__init__(name, switch, note)
        self._checksums = checksums
        self._hosts: VethHosts | None = None

    def hosts(self, number: int) -> Hosts:
        """Behind veth pairs, on the control's core."""
        self._hosts = VethHosts(number, str(CONTROL_CORE), checksums=self._checksums)
        return self._hosts

    def start(self) -> None:
        """Starts the switch and adds the ports."""
        assert self._hosts is not None
        self._switch.start()
        self._bridge(tuple((port, "") for port in self._hosts.ports))
        deadline = time.monotonic() + READY_S
        for port in self._hosts.ports:
            while self._switch.vsctl("get", "Interface", port, "link_state").strip() != "up":
                if time.monotonic() > deadline:
                    told = self._switch.last_words()
                    raise PeerError(f"{self.name}: {port} does not come up; {told}")
                time.sleep(0.05)


class VhostSubject(SwitchSubject):
    """Guests at vhost-user ports."""

    def __init__(self, name: str, switch: OpenVSwitchLike, note: str, guest_program: Path) -> None:
        """`guest_program` is headrace-guest."""
        super().__init__(name, switch, note)
        self._guest_program = guest_program
        self._hosts: Guests | None = None

    def hosts(self, number: int) -> Hosts:
        """Guests, on the control's core."""
        self._hosts = Guests(number, str(CONTROL_CORE), self._guest_program)
        return self._hosts

    def start(self) -> None:
        """Starts the switch and adds the ports, which connect to the guests when those are there.

        Clients, since OVS (3.1) offers segmentation to the guests of no other vhost-user port.
        """
        assert self._hosts is not None
        self._switch.start()
        ends = ("client", "server")
        client, server = (self._switch.rundir / end for end in ends)
        self._hosts.sockets = (client, server)
        self._bridge(tuple((end, "dpdkvhostuserclient") for end in ends))
        for end, socket in zip(ends, self._hosts.sockets, strict=True):
            self._switch.vsctl("set", "Interface", end, f"options:vhost-server-path={socket}")


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


class _OvsTso(OvsDpdk):
    name = "ovs-dpdk-tso"
    alone = True  # the other one's bridge and datapath have the same names in the kernel
    further_config = ("other_config:userspace-tso-enable=true",)


class BridgeSubject(Subject):
    """The kernel's own bridge."""

    name = "linux-bridge"
    note = "senders' defaults; hosts and bridge on both cores"

    def __init__(self) -> None:
        """Nothing is made yet."""
        self._bridge = f"hrtb{os.getpid() % 100000}"
        self._hosts: VethHosts | None = None

    def hosts(self, number: int) -> Hosts:
        """Behind veth pairs, on both cores: it works in its senders' context."""
        self._hosts = VethHosts(number, f"{CONTROL_CORE},{WORKER_CORE}")
        return self._hosts

    def start(self) -> None:
        """Makes the bridge and adds the ports."""
        assert self._hosts is not None
        run("ip", "link", "add", self._bridge, "type", "bridge")
        run("ip", "link", "set", self._bridge, "addrgenmode", "none", "up")
        for port in self._hosts.ports:
            run("ip", "link", "set", port, "master", self._bridge)

    def stop(self) -> None:
        """Removes the bridge."""
        subprocess.run(["ip", "link", "del", self._bridge], check=False, capture_output=True)  # noqa: S603, S607

    def park(self) -> None:
        """It does nothing while nothing is sent."""

    def resume(self) -> None:
        """Nothing to do."""


def guest_program() -> Path:
    """headrace-guest of the build; PeerError with the remedy if it is missing."""
    found = find_program("headrace-switch").parents[1] / "channel" / "headrace-guest"
    if not found.exists():
        raise PeerError(f"{found} is missing; run `make build`")
    return found


def subjects(place: Place) -> list[Subject]:
    """All that are compared, Headrace before its peers."""
    program, guest = find_program("headrace-switch"), guest_program()
    cores = f"hosts on core {CONTROL_CORE}, the switch on core {WORKER_CORE}"
    return [
        VethSubject(HEADRACE, Headrace(place, program), f"senders' defaults; {cores}"),
        VethSubject(
            OVS_NETDEV,
            _OvsNetdev(place),
            f"senders with `tx off`, as it needs; {cores}",
            checksums=True,
        ),
        BridgeSubject(),
        VhostSubject(
            HEADRACE_VHOST,
            Headrace(place, program, name=HEADRACE_VHOST),
            f"guests with checksum and TSO; {cores}",
            guest,
        ),
        VhostSubject(
            OVS_VHOST,
            _OvsTso(place),
            f"guests with checksum and TSO, userspace-tso-enable; {cores}",
            guest,
        ),
    ]
