# SPDX-License-Identifier: Apache-2.0
"""The ports of VNFs: the names that the switch knows them by, and the options of their kinds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from headrace.node.planning.nffg import VnfModel
from headrace.node.planning.resources import Plan
from headrace.switches.base import PortKind, PortSpec

_SHM_PORTS = 64
_SHM_BUFFERS = 16384
"""Ports and packet buffers (of 2240 octets) of a graph's shared memory: 36 MiB."""


class PortNames:
    """Gives VNF ports the names that the switch knows them by; equal ports keep theirs."""

    def __init__(self, prefix: str, number: int, previous: Plan, letter: str = "") -> None:
        """`letter` is that of the graph's switch, if that is not the node's first."""
        self._letter = letter
        self._prefix = prefix
        self._number = number
        self._previous = previous.port_names
        self.next = previous.next_port
        self.kept: dict[str, str] = {}
        self.references: dict[str, str] = {}

    def lsi(self) -> str:
        """The name of the graph's LSI."""
        return f"{self._prefix}-{self._number}{self._letter}"

    def name(self, reference: str, kind: PortKind | Literal["patch"]) -> str:
        """The name of the port `vnf:<id>:<label>:<n>` or `endpoint:<id>` of this kind."""
        identity = f"{kind} {reference}"
        if identity in self.kept:
            return self.kept[identity]
        if identity in self._previous:
            name = self._previous[identity]
        else:
            # An interface of the kernel is that of all nodes of the machine.
            between = self._letter and kind == "patch" and kind is not PortKind.PATCH
            node = self._prefix if between or kind in (PortKind.VETH, PortKind.TAP) else ""
            name, self.next = f"{node}g{self._number}p{self.next}", self.next + 1
        self.kept[identity] = name
        self.references[reference] = name
        return name


def shm_group(lsi: str) -> dict[str, str]:
    """The trust group of a graph: one region of shared memory for all its VNFs."""
    return {
        "group": lsi,
        "ports": str(_SHM_PORTS),
        "buffers": str(_SHM_BUFFERS),
    }


def patch_options(names: PortNames, vnf: VnfModel, name: str, number: int) -> dict[str, str]:
    """The options of port `number` of a VNF that is an LSI, whose name is after its first port."""
    first = names.name(f"vnf:{vnf.id}:{vnf.ports[0].id}", PortKind.PATCH)
    lsi = f"{names.lsi()}f{first.rpartition('p')[2]}"
    return {"lsi": lsi, "peer": f"{name}f", "number": str(number)}


def port_spec(
    name: str,
    kind: PortKind,
    options: Mapping[str, str],
    sockets: Path,
    rundir: Path,
    labels: dict[str, str],
) -> PortSpec:
    """A port with the options that its kind needs; its socket is in the folder `sockets`.

    A port of a VNF has a folder of its own, which is the VNF's to use.
    """
    defaults: dict[str, str] = {}
    if kind is PortKind.MEMIF:
        defaults = {"socket": str(sockets / f"{name}.memif"), "id": "0", "role": "server"}
    elif kind is PortKind.VHOST_USER:
        defaults = {"path": str(sockets / f"{name}.sock")}
    elif kind is PortKind.SHM:
        group = options.get("group", name)
        defaults = {"group": group, "socket": str(rundir / "switch" / f"{group}.shm")}
    return PortSpec(name=name, kind=kind, options={**defaults, **options}, labels=labels)
