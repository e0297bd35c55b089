# SPDX-License-Identifier: Apache-2.0
"""The custom resources as models: what the controller reads of ServiceGraph and HeadraceNode.

The API server has checked objects against their schemas (manifests/); what it can't check is found
here, and told with its place.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic.alias_generators import to_camel

GROUP, VERSION = "headrace.dev", "v1alpha1"
GRAPHS, NODES = "servicegraphs", "headracenodes"

Placement = Literal["mixed", "gather", "distribute"]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class ResourceError(Exception):
    """An object that can't be used; the message says where and what to do."""


class _Model(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )


class Frames(_Model):
    """A size of frames, with FCS, and its share of all."""

    bytes: Annotated[float, Field(ge=64, le=65_535)]
    share: NotNegative


class Demand(_Model):
    """What a graph is to carry."""

    pps: Positive = 1000.0
    frame_bytes: Annotated[float, Field(ge=64, le=65_535)] = 512.0
    frames: list[Frames] = []
    latency_us: Positive | None = None

    @property
    def mean_bytes(self) -> float:
        """The mean size of a frame."""
        total = sum(one.share for one in self.frames)
        if total <= 0:
            return self.frame_bytes
        return sum(one.bytes * one.share for one in self.frames) / total


class FunctionCost(_Model):
    """What a VNF of a template takes; a polling VNF has a core of its own."""

    cores: NotNegative = 1.0
    cycles: NotNegative = 0.0
    memory_mb: NotNegative = 256.0
    port: str = "vhost-user"
    latency_us: NotNegative = 0.0


class Pin(_Model):
    """An end-point or a VNF that has to be on `node`."""

    end_point: str | None = None
    vnf: str | None = None
    node: str

    @property
    def owner(self) -> str:
        """As the graph's ports are named: `endpoint:ID` or `vnf:ID`."""
        return f"vnf:{self.vnf}" if self.vnf is not None else f"endpoint:{self.end_point}"


class AntiAffinity(_Model):
    """VNFs of which no two may share a node or rack."""

    vnfs: Annotated[list[str], Field(min_length=2)]
    domain: Literal["node", "rack"] = "node"


class Constraints(_Model):
    """What a placement has to keep."""

    nodes: list[str] = []
    anti_affinity: list[AntiAffinity] = []
    pinned: list[Pin] = []


class GraphSpec(_Model):
    """`spec` of a ServiceGraph; `graph` is the NF-FG as it was written."""

    graph: dict[str, Any] = Field(alias="forwarding-graph")
    demand: Demand = Demand()
    placement: Placement = "mixed"
    functions: dict[str, FunctionCost] = {}
    constraints: Constraints = Constraints()

    def cost_of(self, vnf: Mapping[str, Any]) -> FunctionCost:
        """What a VNF of the graph takes, by its template or capability."""
        for key in ("vnf_template", "functional-capability", "name"):
            if vnf.get(key) in self.functions:
                return self.functions[str(vnf[key])]
        return FunctionCost()


@dataclass(frozen=True)
class Graph:
    """A ServiceGraph: who it is, and what it wants."""

    uid: str
    namespace: str
    name: str
    generation: int
    spec: GraphSpec


class SecretName(_Model):
    """A Secret."""

    name: str
    namespace: str


class NodeResources(_Model):
    """What a node has for graphs."""

    cores: NotNegative
    switch_cores: Positive = 1.0
    ghz: Positive
    memory_mb: NotNegative
    link_gbps: Positive


class NodeModel(_Model):
    """TSC cycles that a packet costs the node's switch."""

    entry: NotNegative
    visit: dict[str, NotNegative]
    per_byte: NotNegative = 0.0
    max_load: Annotated[float, Field(gt=0, le=1)] = 0.9
    hop_us: NotNegative = 0.0


class Prices(_Model):
    """Of a node in use, and of a core in use."""

    node: NotNegative = 1.0
    core: NotNegative = 0.0


class NodeSpec(_Model):
    """`spec` of a HeadraceNode."""

    address: str
    tunnel_address: str | None = None
    rack: str = ""
    unschedulable: bool = False
    token_secret: SecretName | None = None
    resources: NodeResources
    model: NodeModel
    prices: Prices = Prices()


def _told(error: ValidationError) -> str:
    first = error.errors()[0]
    return f"spec.{'.'.join(str(part) for part in first['loc'])}: {first['msg']}"


def graph_of(body: Mapping[str, Any]) -> Graph:
    """The graph of a ServiceGraph object.

    Raises:
        ResourceError: a field is wrong; the message names it.
    """
    about = body["metadata"]
    try:
        spec = GraphSpec.model_validate(body["spec"])
    except ValidationError as error:
        raise ResourceError(_told(error)) from error
    return Graph(
        str(about["uid"]),
        str(about["namespace"]),
        str(about["name"]),
        int(about.get("generation", 1)),
        spec,
    )


def node_of(body: Mapping[str, Any]) -> tuple[str, NodeSpec]:
    """Name and specification of a HeadraceNode object.

    Raises:
        ResourceError: a field is wrong; the message names it.
    """
    try:
        return str(body["metadata"]["name"]), NodeSpec.model_validate(body["spec"])
    except ValidationError as error:
        raise ResourceError(_told(error)) from error
