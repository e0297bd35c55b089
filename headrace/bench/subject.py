# SPDX-License-Identifier: Apache-2.0
"""Subjects of scenarios: a switch, the kinds of its ports, and how VNFs run on it."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headrace.results import Case

Switch = Literal[
    "headrace",
    "ovs-dpdk",
    "ovs-netdev",
    "ovs-kernel",
    "linux-bridge",
    "vpp",
    "sr-iov",
    "pci-passthrough",
]
"""What steers packets. The last two are none: a NIC's function belongs to the VNF."""
PortKind = Literal["memif", "vhost-user", "veth", "shm", "nic"]
IN_PROCESS = "in-process"
OF_DPDK: tuple[Switch, ...] = ("headrace", "ovs-dpdk")
"""Switches that can load the in-process source, which is a DPDK plugin."""
OF_KERNEL: tuple[Switch, ...] = ("ovs-netdev", "ovs-kernel", "linux-bridge")
"""Switches whose ports are the kernel's."""
DRIVERS: dict[Switch, tuple[str, dict[str, str]]] = {
    "headrace": ("headrace", {}),
    "ovs-dpdk": ("ovs-dpdk", {}),
    "ovs-netdev": ("ovs", {"datapath": "userspace"}),
    "ovs-kernel": ("ovs", {"datapath": "kernel"}),
    "linux-bridge": ("linux-bridge", {}),
    "vpp": ("vpp", {"program": "vpp"}),
}
"""`switch` and `switch_options` of node.yaml; what is not here the bench starts no node with."""


class Subject(BaseModel):
    """What is measured: a switch, the kinds of its ports, and how VNFs run on it.

    With `ports: in-process` source and sink are in the switch's own worker
    (dataplane/flowsource): there is no generator that could be the limit or take a core. With
    `sink: in-process` a generator sends by `ports`, and the switch counts what it would send back.

    Attributes:
        switch: see `Switch`.
        ports: kind of the physical ports.
        vnf_ports: kind of the ports of VNFs; by default as `ports`.
        engine: how VNFs run.
        function: what each VNF does: a function of headrace-vnf, or `bridge` for engine native.
        configuration: of that function, as a template would have it.
        sink: where packets end.
        workers: of the switch, each on a core.
        nodes: in a row, each with such a switch.
        joined: by what neighbors are joined.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    switch: Switch
    ports: PortKind | Literal["in-process"]
    vnf_ports: PortKind | None = None
    engine: Literal["process", "container", "vm", "native"] = "process"
    function: str = "pass"
    configuration: dict[str, Any] = {}
    sink: Literal["generator", "in-process"] = "generator"
    workers: Annotated[int, Field(ge=1, le=64)] = 1
    nodes: Annotated[int, Field(ge=1, le=8)] = 1
    joined: Literal["memif", "veth"] = "veth"

    @model_validator(mode="after")
    def _possible(self) -> Self:
        inside = IN_PROCESS in (self.ports, self.sink)
        if "shm" in (self.ports, self.vnf_ports) and self.switch != "headrace":
            raise ValueError(f"{self.switch} has no ports by shared memory: they are headrace's")
        if inside and self.switch not in OF_DPDK:
            raise ValueError(f"{self.switch} has no in-process source and sink: they are DPDK's")
        if self.switch in OF_KERNEL and {self.ports, self.inner_ports} - {"veth", "nic"}:
            raise ValueError(f"{self.switch} has ports of the kernel: veth")
        if self.nodes > 1 and inside:
            raise ValueError("nodes in a row have a generator at both ends")
        if self.nodes > 1 and self.joined == "memif" and self.switch != "headrace":
            raise ValueError(f"{self.switch} has no memif ports: join its nodes by veth")
        return self

    @property
    def inner_ports(self) -> PortKind:
        """Kind of the ports towards VNFs; by default that of the physical ports."""
        if self.vnf_ports is not None:
            return self.vnf_ports
        return "vhost-user" if self.ports == "in-process" else self.ports

    @property
    def outer_ports(self) -> str:
        """Where packets come from and go to: a kind of port, or `vhost-user>in-process`."""
        if self.ports != IN_PROCESS and self.sink == IN_PROCESS:
            return f"{self.ports}>{IN_PROCESS}"
        return self.ports

    @property
    def words(self) -> list[str]:
        """What of a case's variant is the node's (results/records.py)."""
        found = [f"workers={self.workers}"] if self.workers > 1 else []
        if self.nodes > 1:
            found += [f"nodes={self.nodes}", f"joined={self.joined}"]
        return found

    def runs(self, case: Case) -> bool:
        """Whether the case is one of the subject's."""
        return (
            (self.switch, self.outer_ports) == (case.switch, case.ports)
            and str(self.workers) == case.varied("workers", "1")
            and str(self.nodes) == case.varied("nodes", "1")
            and case.varied("joined", self.joined) == self.joined
            and case.vnf_ports in ("", self.inner_ports)
            and case.engine in ("", self.engine)
            and case.function in ("", self.function)
        )

    @property
    def node(self) -> str:
        """Name of the node that runs it: one node for each switch and set of port kinds."""
        inner = f"-{self.inner_ports}" if self.inner_ports != self.ports else ""
        more = "".join(f"-{word.replace('=', '')}" for word in self.words)
        return f"{self.switch}-{self.outer_ports.replace('>', '-to-')}{inner}{more}"
