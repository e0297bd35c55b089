# SPDX-License-Identifier: Apache-2.0
"""The node's interface to a switch of any kind.

A driver is idempotent: adding an existing object, or removing a missing one, succeeds. So the node
may repeat any step after a crash without knowing how far the last attempt got. A driver can be
started while its switch is already running (after a restart of the node): it adopts the switch and
loses no packet.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Literal, NamedTuple, Protocol

from pydantic import BaseModel, ConfigDict

from headrace.machine.processes import Supervisor
from headrace.switches.fields import FIELDS
from headrace.switches.rules import Rule


class SwitchError(Exception):
    """A switch rejected a request or failed; the text names object, reason and a known remedy."""


class PortKind(StrEnum):
    """How a port is connected to its peer."""

    MEMIF = "memif"
    VHOST_USER = "vhost-user"
    VETH = "veth"
    DPDK = "dpdk"
    TAP = "tap"
    SYSTEM = "system"
    SHM = "shm"
    GRE = "gre"
    VXLAN = "vxlan"
    GTPU = "gtpu"
    OPENFLOW = "openflow"
    PATCH = "patch"


TUNNELS = {"gre-tunnel": PortKind.GRE, "vxlan": PortKind.VXLAN, "gtpu": PortKind.GTPU}
"""The ports of the tunnel end-points of a graph, by their types."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class PortSpec(_Frozen):
    """A port to be made. `name` is unique in the node; a VNF's veth port's on the whole machine.

    Options by kind: memif `socket`, `id`, `role`; vhost-user `path` (the switch is the client);
    dpdk `devargs` and OVS's own options; system `iface`; veth `iface` and `peer` (names of both
    ends), `frames` (`whole`: what a wire carries, without offloads); tap of a VNF `iface`; shm
    `group`, `socket` (of the group, which the switch makes), `ports` and `buffers` (of the group,
    taken from its first port);
    gre, vxlan and gtpu `remote_ip`, `local_ip` with `local_prefix`, `underlay` (the LSI of the
    outer packets), `key`, or `in_key` and `out_key`, `gateway` and `ttl`; openflow `number`, of a
    port that the switch has already, and `iface`, the interface of this machine that its wire leads
    to; patch `lsi`, an LSI that is a VNF and is made with its first port, `peer`, the port there,
    and its `number`. `labels` describe the port's owner, for operators.
    """

    name: str
    kind: PortKind
    options: dict[str, str] = {}
    labels: dict[str, str] = {}


class LinkSpec(_Frozen):
    """A link between two LSIs: `first_port` of `first` and `second_port` of `second`."""

    first: str
    first_port: str
    second: str
    second_port: str


class QueueSpec(_Frozen):
    """A queue of a port, by its `number` there; rates are in bit/s, 0 is without a bound.

    A packet that asks for no queue is not held to any of them.
    """

    port: str
    number: int
    min_rate: int = 0
    max_rate: int = 0


class Attach(_Frozen):
    """How a peer attaches to a port: vdev arguments of a DPDK program, or a kernel interface."""

    devargs: str | None = None
    iface: str | None = None


class PortStatistics(_Frozen):
    """Counters of a port since it was made, and its number in the flow tables (0: none)."""

    lsi: str
    port: str
    ofport: int
    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_dropped: int
    tx_dropped: int


COUNTERS = ("rx_packets", "tx_packets", "rx_bytes", "tx_bytes", "rx_dropped", "tx_dropped")
"""The counters of PortStatistics, by the names that OpenFlow and the kernel also give them."""


class RuleStatistics(NamedTuple):
    """Packets and bytes that a rule has matched, identified by its cookie.

    There are as many as rules, so it is a tuple and no model.
    """

    cookie: int
    packets: int
    bytes: int


class WorkerCycles(_Frozen):
    """TSC cycles of one worker since it started: on packets, on empty polls; packets received.

    `rounds` over all its queues, of which `busy_rounds` brought packets, in `bursts`, `full_bursts`
    of them as large as a burst can be: more may have waited. None where the switch does not count
    it.
    """

    core: int
    busy_cycles: int
    idle_cycles: int
    packets: int
    rounds: int | None = None
    busy_rounds: int | None = None
    bursts: int | None = None
    full_bursts: int | None = None


class SwitchCycles(_Frozen):
    """Cycles of the switch's workers. Counters only increase; subtract two readings.

    `approximate` marks kernel switches: softirq time of whole cores, converted with `tsc_hz`, other
    work included; `source` says where the figures come from. `resolution_cycles` is how far the
    difference of two readings may be off then.
    """

    switch: str
    approximate: bool
    source: str
    tsc_hz: float
    at_ns: int
    workers: tuple[WorkerCycles, ...]
    resolution_cycles: float | None = None


ActionKind = Literal[
    "output",
    "copy",
    "controller",
    "normal",
    "select",
    "push_vlan",
    "pop_vlan",
    "set_field",
    "set_queue",
]
"""What a rule may do: `output` to one port, `copy` to several, and the kinds of rules.py."""

OPENFLOW_ACTIONS: tuple[ActionKind, ...] = (
    "output",
    "copy",
    "normal",
    "select",
    "push_vlan",
    "pop_vlan",
    "set_field",
)
OPENFLOW_MASKS = (
    "eth_src",
    "eth_dst",
    "vlan_vid",
    "ipv4_src",
    "ipv4_dst",
    "ipv6_src",
    "ipv6_dst",
    "ipv6_flabel",
    "arp_spa",
    "arp_tpa",
    "arp_sha",
    "arp_tha",
)
"""The maskable ones of our fields (OpenFlow 1.3.5, section 7.2.3.7, table 12)."""

OPENFLOW_SETS = (
    "eth_src",
    "eth_dst",
    "vlan_vid",
    "vlan_pcp",
    "ip_dscp",
    "ip_ecn",
    "ipv4_src",
    "ipv4_dst",
    "ipv6_src",
    "ipv6_dst",
    "tcp_src",
    "tcp_dst",
    "udp_src",
    "udp_dst",
    "sctp_src",
    "sctp_dst",
)
"""The fields that a graph's rules can overwrite."""


class Capabilities(_Frozen):
    """What a switch can do: planning refuses what is beyond it, the contract's tests try all of it.

    `vnf_kinds` is in order of preference. `end_points` are the types of end-points of a graph that
    it carries. `matches`, `masks` (those of which single bits may be matched) and `sets` are fields
    of `fields.FIELDS`. Without `priorities` no packet may match two rules of a port. `counters`
    says what is counted. `keeps_flows`: a flow that is given one of several ports keeps it when
    others come and go. `links`: links between LSIs are ports of the switch, with counters; else the
    node alone knows of them (flat.py). The defaults are those of a switch that is programmed by
    OpenFlow 1.3.
    """

    port_kinds: tuple[PortKind, ...]
    vnf_kinds: tuple[PortKind, ...]
    end_points: tuple[str, ...] = ("interface", "vlan")
    matches: tuple[str, ...] = tuple(FIELDS)
    masks: tuple[str, ...] = OPENFLOW_MASKS
    actions: tuple[ActionKind, ...] = OPENFLOW_ACTIONS
    sets: tuple[str, ...] = OPENFLOW_SETS
    counters: tuple[Literal["port", "rule"], ...] = ("port", "rule")
    timeouts: bool = True
    priorities: bool = True
    polls: bool = True
    control_socket: bool = False
    keeps_flows: bool = False
    links: bool = True

    @property
    def offered(self) -> set[PortKind]:
        """All kinds of ports that the switch has."""
        tunnels = {TUNNELS[kind] for kind in self.end_points if kind in TUNNELS}
        return {*self.port_kinds, *self.vnf_kinds, *tunnels}


class SwitchSettings(_Frozen):
    """The settings of a driver. `pci`: some port is a PCI device, so the bus must be scanned.

    `max_sleep_us` is how long an idle worker may sleep; 0 on cores that are the switch's alone.
    `plugins` are DPDK drivers (shared objects) that EAL loads besides its own. `options` are the
    driver's own (docs/switches.md). `instance` tells apart the switches of a node that has several;
    the first one's is empty.
    """

    rundir: Path
    prefix: str
    cores: tuple[int, ...]
    control_cores: tuple[int, ...]
    memory_mb: int
    hugepages: bool
    pci: bool = False
    max_sleep_us: int = 0
    plugins: tuple[Path, ...] = ()
    options: dict[str, str] = {}
    instance: str = ""

    def named(self, name: str) -> str:
        """The name of a file or process of the switch, which no other switch of the node has."""
        return f"{name}-{self.instance}" if self.instance else name


def mask_of(cores: Iterable[int]) -> str:
    """Cores as a mask in hexadecimal, as in options of DPDK and OVS."""
    return hex(sum(1 << core for core in cores))


class SwitchDriver(Protocol):
    """One switch under the node's control. All methods belong to one event loop."""

    name: str
    capabilities: Capabilities

    async def start(self) -> bool:
        """Starts the switch, or adopts the running one with its state.

        Returns True if it was adopted with its state, False if it was started and is empty.
        """
        ...

    async def stop(self) -> None:
        """Stops the switch and removes everything that it created in the system."""
        ...

    async def create_lsi(self, lsi: str) -> None:
        """Makes a logical switch instance that drops whatever no rule matches."""
        ...

    async def delete_lsi(self, lsi: str) -> None:
        """Removes an LSI with its ports and rules."""
        ...

    async def add_port(self, lsi: str, port: PortSpec) -> None:
        """Creates a port; returns when it is in operation."""
        ...

    async def remove_port(self, lsi: str, port: PortSpec) -> None:
        """Removes a port and its device."""
        ...

    async def connect_lsis(self, link: LinkSpec) -> None:
        """Joins two LSIs by a pair of patch ports."""
        ...

    async def disconnect_lsis(self, link: LinkSpec) -> None:
        """Removes a pair of patch ports."""
        ...

    async def install_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """Installs rules or replaces those of the same identity; returns when all are in force.

        Raises:
            SwitchError: names the first rule that the switch rejected, by its label.
        """
        ...

    async def remove_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """Removes rules by identity; returns when they are no longer in effect."""
        ...

    async def replace_flows(self, lsi: str, flows: Sequence[str]) -> None:
        """Makes these the flows of all tables of an LSI, at once; those that stay are untouched.

        They are written as ovs-ofctl(8) has them.

        Raises:
            SwitchError: the switch has no LSIs that are VNFs, or refuses a flow; all are as before.
        """
        ...

    async def set_controller(self, lsi: str, address: str | None) -> None:
        """Makes an LSI connect to an OpenFlow controller at `tcp:IP:PORT`, or to none.

        Raises:
            SwitchError: the switch has no such thing (see Capabilities: action `controller`).
        """
        ...

    async def add_queue(self, lsi: str, queue: QueueSpec) -> None:
        """Gives a port a queue, in place of that of the same number.

        Raises:
            SwitchError: the switch has none (see Capabilities: action `set_queue`).
        """
        ...

    async def remove_queue(self, lsi: str, queue: QueueSpec) -> None:
        """Removes a queue of a port; what asks for it goes on without one."""
        ...

    async def port_statistics(self, lsi: str | None = None) -> list[PortStatistics]:
        """Counters of all ports of all LSIs, or of one."""
        ...

    async def rule_statistics(self, lsi: str) -> list[RuleStatistics]:
        """Counters of the rules of an LSI."""
        ...

    async def cycles(self) -> SwitchCycles:
        """Cycles of the workers so far."""
        ...

    async def version(self) -> str:
        """Name and version of the switch, and of DPDK if it uses it."""
        ...

    def attach(self, port: PortSpec) -> Attach:
        """How a peer attaches to `port`."""
        ...

    async def wait_for_links(self, ports: Sequence[PortSpec]) -> None:
        """Returns when the switch sends through these veth ports, whose far ends are up.

        Raises:
            SwitchError: names a port whose link stays down.
        """
        ...

    async def missing(self, ports: Collection[str]) -> set[str]:
        """Those of `ports`, which have been made, that are not in service any more.

        Raises:
            SwitchError: the switch does not answer.
        """
        ...

    async def links(self) -> dict[str, bool]:
        """Whether the link of each port is up, as far as the switch knows.

        Raises:
            SwitchError: the switch does not answer.
        """
        ...

    def processes(self) -> tuple[str, ...]:
        """The names, at the supervisor, of the processes to stop when the node is paused."""
        ...

    def watched(self) -> tuple[str, ...]:
        """The names, at the supervisor, of all processes that the switch needs."""
        ...


class DriverFactory(Protocol):
    """Makes a driver; `programs` are found by the caller."""

    def __call__(self, settings: SwitchSettings, supervisor: Supervisor) -> SwitchDriver:
        """Makes a driver that has not touched anything yet."""
        ...


def vdev_devargs(port: PortSpec, options: Mapping[str, str] | None = None) -> str:
    """The vdev argument with which a DPDK program attaches to a memif or vhost-user port.

    `{n}` stands for an index that the peer has not used yet. Packed, vectorised virtio is the
    fastest that rte_vhost supports; a ring of 1024 bridges scheduling gaps of about 0.1 ms at 10
    Mpps.
    """
    extra = "".join(f",{key}={value}" for key, value in (options or {}).items())
    if port.kind is PortKind.MEMIF:
        socket, number = port.options["socket"], port.options.get("id", "0")
        role = "server" if port.options.get("role", "server") == "client" else "client"
        return f"net_memif{{n}},role={role},socket={socket},id={number},socket-abstract=no{extra}"
    if port.kind is PortKind.VHOST_USER:
        return (
            f"net_virtio_user{{n}},path={port.options['path']},server=1,packed_vq=1,in_order=1,"
            f"mrg_rxbuf=0,vectorized=1,queue_size=1024{extra}"
        )
    raise SwitchError(f"port {port.name}: a {port.kind} port has no DPDK peer")
