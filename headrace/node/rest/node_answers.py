# SPDX-License-Identifier: Apache-2.0
"""What /node answers."""

from typing import Literal

from headrace.node.rest.contract import Answer
from headrace.switches.base import Attach, Capabilities, PortKind


class VirtualFunctionsAnswer(Answer):
    """How many virtual functions a physical one can have, and those that it has."""

    total: int
    addresses: list[str]


class PciFunctionAnswer(Answer):
    """A PCI network function: where it is, who drives it, what it belongs to, who uses it."""

    address: str
    vendor: int
    device: int
    driver: str | None
    numa_node: int | None
    iommu_group: int | None
    interfaces: list[str]
    mac: str | None
    link_mbps: int | None
    virtual_functions: VirtualFunctionsAnswer | None
    physical: str | None
    number: int | None
    used_by: list[str]


class NodeSwitch(Capabilities):
    """The switch, and what it can do."""

    name: str
    version: str
    lsi0: str


class FurtherSwitch(Capabilities):
    """A switch that graphs may name beside the first."""

    name: str
    driver: str


class Placement(Answer):
    """The policy that places VNFs, and those that node.yaml can name."""

    policy: str
    policies: list[str]


class NodeInformation(Answer):
    """What a node is; `engines` with the kinds of ports that their VNFs can have."""

    name: str
    version: str
    switch: NodeSwitch
    switches: list[FurtherSwitch]
    engines: dict[str, list[PortKind]]
    templates: list[str]
    hugepages: bool
    hugepages_note: str
    kernel: str
    rundir: str
    paused: bool
    graphs: int
    recovering: int
    placement: Placement


class CoreUse(Answer):
    """A core: its roles, how many pollers it was given to, and the reservation that has it."""

    core: int
    roles: list[Literal["control", "switch", "vnf"]]
    polling: int
    oversubscribed: bool
    reserved_by: str | None


class MemoryUse(Answer):
    """MiB for the switch and all VNFs: `memory_mb`, and how much of it is in 2 MiB hugepages."""

    total: int
    used: int
    free: int


class PortUse(Answer):
    """A physical port, and the graphs that use it."""

    name: str
    used_by: list[str]


class NumaNode(Answer):
    """A NUMA node with its cores."""

    node: int
    cores: list[int]


class Processor(Answer):
    """The machine's processor; `features` are the kernel's names."""

    number: int
    model: str | None
    architecture: str
    features: list[str]
    numa: list[NumaNode]


class MachineMemory(Answer):
    """Octets; `available` to new programs without swapping."""

    total: int
    available: int


class Disk(Answer):
    """The file system of a path; octets."""

    path: str
    total: int
    free: int


class Nic(Answer):
    """A network interface of the kernel's."""

    name: str
    mac: str | None
    mtu: int | None
    up: bool
    speed_mbps: int | None
    pci: str | None
    numa_node: int | None
    virtual_functions: int


class Accelerator(Answer):
    """A coprocessor on the PCI bus."""

    address: str
    vendor: int | None
    device: int | None


class Machine(Answer):
    """What the machine has, and what of it is available; the node's own share stands beside it."""

    cpu: Processor
    memory: MachineMemory
    disks: list[Disk]
    nics: list[Nic]
    accelerators: list[Accelerator]


class Resources(Answer):
    """What there is and what is taken."""

    cores: list[CoreUse]
    oversubscribed: bool
    oversubscribe_allowed: bool
    memory_mb: MemoryUse
    hugepages_mb: MemoryUse
    ports: list[PortUse]
    pci: list[PciFunctionAnswer]
    machine: Machine


class PortCounters(Answer):
    """Counters of a port; nothing while the switch does not answer."""

    rx_packets: int | None = None
    tx_packets: int | None = None
    rx_bytes: int | None = None
    tx_bytes: int | None = None
    rx_dropped: int | None = None
    tx_dropped: int | None = None


class NodePort(Answer):
    """A physical port: how to attach to it, who uses it, what passed it.

    `owner` is who has attached it; null for a port of node.yaml.
    """

    name: str
    kind: PortKind
    ofport: int
    attach: Attach
    users: list[str]
    owner: str | None
    statistics: PortCounters


class VnfCycles(Answer):
    """TSC cycles of a VNF since it started; null, with the `reason`, where they are not known.

    Engines say more where they know more: rounds, bursts, CPU time.
    """

    approximate: bool | None = None
    busy_cycles: int | None
    idle_cycles: int | None
    packets: int | None
    reason: str | None = None
    cpu_ns: int | None = None


class VnfPortCounters(Answer):
    """Counters of a port, as the VNF has them."""

    rx_packets: int | None = None
    tx_packets: int | None = None
    rx_dropped: int | None = None
    tx_dropped: int | None = None


class NamedPortCounters(VnfPortCounters):
    """Counters of a port with its name."""

    name: str


class VnfCounters(Answer):
    """Counters of a VNF: by port, and what else its engine knows."""

    ports: dict[str, VnfPortCounters] | list[NamedPortCounters]
    reason: str | None = None
