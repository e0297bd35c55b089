# SPDX-License-Identifier: Apache-2.0
"""A lab with NICs: which generator sends by which ports, and which node is measured by which.

    generator: {kind: headrace, ports: ["0000:03:00.0", "0000:03:00.1"]}
    device: {ports: ["0000:05:00.0", "0000:05:00.1"], n_rxq: 2}
    line_gbps: 10

With a file like this, given as `--lab`, subjects whose ports are `nic`, and those that would have a
generator at ports in shared memory, run on these NICs instead. On two machines the generator's
names the node that runs on the other one (`device: {node: "http://dut:8080"}`), which an operator
has started with the switch that is to be measured and two physical ports, `in0` and `out0`. The
generator may be a TRex server (`kind: trex`, `server`, ports by number).
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from headrace.bench.errors import DeviceError, ScenarioError
from headrace.bench.subject import IN_PROCESS, OF_KERNEL, Subject, Switch
from headrace.results.frame_sizes import mean_bytes

DEVICES = Path("/sys/bus/pci/devices")
GAP_BYTES = 20
"""Preamble, start of frame and the gap between frames (IEEE 802.3), beside each frame."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LabGenerator(_Strict):
    """The generator and its two ports: PCI addresses of this machine, or TRex's numbers."""

    kind: Literal["headrace", "trex"] = "headrace"
    ports: Annotated[list[str], Field(min_length=2, max_length=2)]
    server: str = ""
    server_port: Annotated[int, Field(ge=1, le=65535)] = 4501

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.kind == "trex") != bool(self.server):
            raise ValueError("`server` is the host of a TRex server, and needed for kind trex")
        return self


class LabDevice(_Strict):
    """What is measured: PCI addresses for nodes that the bench starts, or a node that runs.

    `n_rxq` receive queues of each port spread flows over the switch's workers (RSS).
    """

    ports: Annotated[list[str], Field(max_length=2)] = []
    node: str = ""
    n_rxq: Annotated[int, Field(ge=1, le=64)] = 1

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if bool(self.node) == (len(self.ports) == 2):
            raise ValueError("give either two `ports` by PCI address, or a `node` that runs")
        return self


class Lab(_Strict):
    """A lab file."""

    generator: LabGenerator
    device: LabDevice
    line_gbps: Annotated[float, Field(gt=0)] = 10.0

    def line_pps(self, size: str) -> float:
        """Frames per second of a size that one line carries."""
        return self.line_gbps * 1e9 / (8 * (mean_bytes(size) + GAP_BYTES))

    def node_ports(self, names: tuple[str, str], switch: Switch) -> list[dict[str, Any]]:
        """The physical ports of a node that the bench starts.

        Raises:
            DeviceError: a switch of the kernel needs an interface that the kernel does not drive.
        """
        pairs = zip(names, self.device.ports, strict=True)
        if switch in OF_KERNEL:
            return [
                {"name": name, "kind": "system", "options": {"iface": interface_of(address)}}
                for name, address in pairs
            ]
        return [
            {"name": name, "kind": "dpdk", "options": self._options(address)}
            for name, address in pairs
        ]

    def _options(self, address: str) -> dict[str, str]:
        options = {"devargs": address}
        return {**options, "n_rxq": str(self.device.n_rxq)} if self.device.n_rxq > 1 else options


def interface_of(address: str, devices: Path = DEVICES) -> str:
    """The kernel's interface of a PCI device.

    Raises:
        DeviceError: it has none: there is no such device, or DPDK has it.
    """
    found = sorted(path.name for path in (devices / address / "net").glob("*"))
    if not found:
        raise DeviceError(f"{address} has no interface: bind it to its kernel driver")
    return found[0]


def load_lab(path: Path) -> Lab:
    """Reads a lab file.

    Raises:
        ScenarioError: it cannot be read or is invalid; names the file and each place.
    """
    try:
        return Lab.model_validate(yaml.safe_load(path.read_text()))
    except (OSError, yaml.YAMLError) as error:
        raise ScenarioError(f"{path}: {error}") from error
    except ValidationError as error:
        told = "; ".join(
            f"{'.'.join(str(part) for part in one['loc']) or 'lab'}: {one['msg']}"
            for one in error.errors()
        )
        raise ScenarioError(f"{path}: {told}") from error


def in_lab(subject: Subject) -> Subject:
    """The subject with the lab's NICs as its physical ports.

    In-process sources stay, and nodes in a row, whose ends are not NICs.
    """
    if subject.ports == IN_PROCESS or subject.nodes > 1:
        return subject
    inner = subject.vnf_ports or (subject.ports if subject.ports != "nic" else "vhost-user")
    return subject.model_copy(update={"ports": "nic", "vnf_ports": inner})
