# SPDX-License-Identifier: Apache-2.0
"""/node/pci: the machine's PCI network functions, their virtual functions and their drivers.

Changes act on the machine, not on a graph; what a port of the node uses is not touched.
"""

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field

from headrace.node.errors import GraphRefused, NotFound
from headrace.node.node import Node
from headrace.node.pci import binding, virtual
from headrace.node.pci.functions import PciError, PciFunction, network_functions, read_function
from headrace.node.rest.access import node_of
from headrace.node.rest.contract import refusals
from headrace.node.rest.node_answers import PciFunctionAnswer

router = APIRouter(tags=["pci"])

NodeDep = Annotated[Node, Depends(node_of)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Driver(_Body):
    """Body of PUT /node/pci/{address}/driver: vfio-pci, or null for the kernel's own driver."""

    driver: Literal["vfio-pci"] | None


class Count(_Body):
    """Body of PUT /node/pci/{address}/virtual-functions."""

    count: Annotated[int, Field(ge=0)]


class Settings(_Body):
    """Body of PUT /node/pci/{address}/settings; what is left out stays as it is."""

    mac: Annotated[str, Field(pattern=r"^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$")] | None = None
    vlan: int | None = None
    vlan_priority: int = 0
    trust: bool | None = None
    spoof_check: bool | None = None
    min_rate_mbps: int | None = None
    max_rate_mbps: int | None = None


def describe(node: Node, function: PciFunction) -> dict[str, Any]:
    """A function, and the node's ports and VNFs that use it."""
    return {**asdict(function), "used_by": node.pci_users().get(function.address, [])}


def report(node: Node) -> list[dict[str, Any]]:
    """All network functions of the machine, for GET /node/resources."""
    return [describe(node, function) for function in network_functions(node.sysfs)]


def _idle(node: Node, address: str) -> PciFunction:
    """The function, which no port of the node uses."""
    try:
        function = read_function(address, node.sysfs)
    except PciError as error:
        raise NotFound("pci", str(error)) from error
    users = node.pci_users().get(address)
    if users:
        raise GraphRefused("pci", f"{address} is in use by the node's {', '.join(users)}")
    return function


async def _change(node: Node, address: str, change: Any, *arguments: Any, **named: Any) -> Any:
    _idle(node, address)
    try:
        await asyncio.to_thread(change, address, *arguments, sysfs=node.sysfs, **named)
    except PciError as error:
        raise GraphRefused("pci", str(error)) from error
    return describe(node, read_function(address, node.sysfs))


@router.get("/node/pci", response_model=list[PciFunctionAnswer])
async def get_functions(node: NodeDep) -> list[dict[str, Any]]:
    """The network functions: driver, NUMA node, IOMMU group, virtual functions, who uses them."""
    return report(node)


@router.put("/node/pci/{address}/driver", response_model=PciFunctionAnswer, responses=refusals(404))
async def put_driver(address: str, body: Driver, node: NodeDep) -> dict[str, Any]:
    """Gives a function to vfio-pci, for DPDK and virtual machines, or back to the kernel."""
    if body.driver is None:
        return dict(await _change(node, address, binding.bind_to, None))
    return dict(await _change(node, address, binding.bind_to_vfio))


@router.put(
    "/node/pci/{address}/virtual-functions",
    response_model=PciFunctionAnswer,
    responses=refusals(404),
)
async def put_count(address: str, body: Count, node: NodeDep) -> dict[str, Any]:
    """Makes a physical function have that many virtual ones."""
    in_use = list(node.pci_users())
    return dict(await _change(node, address, virtual.set_count, body.count, in_use=in_use))


@router.put(
    "/node/pci/{address}/settings", response_model=PciFunctionAnswer, responses=refusals(404)
)
async def put_settings(address: str, body: Settings, node: NodeDep) -> dict[str, Any]:
    """Says what a virtual function may do: address, VLAN, trust, rates."""
    try:
        settings = virtual.VirtualSettings(**body.model_dump())
    except PciError as error:
        raise GraphRefused("pci", str(error)) from error
    return dict(await _change(node, address, virtual.configure, settings))
