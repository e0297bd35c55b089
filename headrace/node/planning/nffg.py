# SPDX-License-Identifier: Apache-2.0
"""The NF-FG as clients write it: the union of the dialects that the original node has spoken.

The models read the generations from June 2016 on (root key `forwarding-graph`). They check shapes
only; what refers to what is checked by `validate`. The client's document itself is kept and given
back; the models are the node's reading of it.

A key that no dialect knows is ignored with a warning, because clients of other generations send
such keys, but never inside a match or an action: there it would change where packets go.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Any

from pydantic import (
    AliasChoices,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from headrace.node.errors import GraphRefused, describe
from headrace.node.planning.end_point_models import EndPointModel
from headrace.node.planning.flow_rule_model import FlowRuleModel
from headrace.node.planning.replicas import Scaling
from headrace.node.planning.values import Identifier, Open, Text

MAX_VNFS, MAX_PORTS, MAX_END_POINTS, MAX_RULES = 128, 64, 1024, 20_000
MAX_FORWARDS = 16
MAX_QUEUES = 15
"""What one graph may have."""


class VnfPortModel(Open):
    """A port of a VNF: `id` is `<label>:<n>`."""

    id: Annotated[str, Field(pattern=r"^[^:/\s]+:\d+$", max_length=64)]
    name: Text | None = None
    mac: Annotated[str, Field(pattern=r"^([0-9a-fA-F]{2}:){5}[0-9a-fA-F]{2}$")] | None = None
    unify_ip: Text | None = Field(None, alias="unify-ip")
    trusted: bool = False
    gui_position: Any = Field(None, alias="gui-position")

    @model_validator(mode="after")
    def _trust_needs_mac(self) -> "VnfPortModel":
        if self.trusted and self.mac is None:
            raise ValueError("trusted needs a mac: it is the address that the port is held to")
        return self


Port = Annotated[int, Field(ge=1, le=65535)]


class ControlModel(Open):
    """TCP connections to a port of the host that go to one of the VNF's."""

    host_tcp_port: Port = Field(alias="host-tcp-port")
    vnf_tcp_port: Port = Field(alias="vnf-tcp-port")


class VariableModel(Open):
    """An environment variable, as `NAME=value`."""

    variable: Annotated[Text, Field(pattern=r"^[^=]+=")]


class VnfModel(Open):
    """A network function of a graph."""

    id: Identifier
    name: Text | None = None
    functional_capability: Text | None = Field(
        None, validation_alias=AliasChoices("functional-capability", "functional_capability")
    )
    vnf_template: Text | None = None
    ports: Annotated[list[VnfPortModel], Field(max_length=MAX_PORTS)] = Field([])
    groups: list[Text] = Field([])
    domain: Text | None = None
    description: Text | None = None
    unify_control: Annotated[list[ControlModel], Field(max_length=MAX_FORWARDS)] = Field(
        [], alias="unify-control"
    )
    unify_env_variables: list[VariableModel] = Field([], alias="unify-env-variables")
    user_data: Text | None = None
    gui_position: Any = Field(None, alias="gui-position")
    # Ours: settings for the template's function, such as a router's routes; replicas.
    configuration: dict[str, Any] = Field({})
    scaling: Scaling | None = None


class QueueModel(BaseModel):
    """A queue of the ports to which rules send by `output_to_queue`; rates in bit/s. Ours."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    id: Identifier
    min_rate: Annotated[int, Field(ge=0, le=1 << 40)] = Field(0, alias="min-rate")
    max_rate: Annotated[int, Field(ge=0, le=1 << 40)] = Field(0, alias="max-rate")


class BigSwitchModel(Open):
    """The rules between the ports of a graph."""

    flow_rules: list[FlowRuleModel] = Field(alias="flow-rules", max_length=MAX_RULES)
    # Ours: queues that rules may name, and who gets what rules send to the controller.
    queues: Annotated[list[QueueModel], Field(max_length=MAX_QUEUES)] = Field([])
    controller: Annotated[Text, Field(pattern=r"^tcp:[0-9A-Fa-f.:\[\]]+:\d{1,5}$")] | None = None


class DemandModel(Open):
    """What a graph is to carry: packets per second through it, bytes of a frame with FCS. Ours."""

    pps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    bytes: Annotated[float, Field(ge=64, le=65_535)] = 64.0


class ForwardingGraph(Open):
    """An NF-FG."""

    id: Text | None = None
    name: Text | None = None
    description: Text | None = None
    domain: Text | None = None
    # Ours: which of the node's switches has the graph's LSI; by default the first.
    switch: Text | None = None
    vnfs: list[VnfModel] = Field([], alias="VNFs", max_length=MAX_VNFS)
    end_points: list[EndPointModel] = Field([], alias="end-points", max_length=MAX_END_POINTS)
    big_switch: BigSwitchModel = Field(
        default_factory=lambda: BigSwitchModel.model_validate({"flow-rules": []}),
        alias="big-switch",
    )
    node_config: list[Any] = Field([], alias="node-config")
    unify_monitoring: Text | None = Field(None, alias="unify-monitoring")
    demand: DemandModel | None = None


def parse(document: Any) -> tuple[ForwardingGraph, list[str]]:
    """Reads a client's document; returns the graph and warnings about what is ignored.

    Raises:
        GraphRefused: the first thing that is wrong, with its place.
    """
    if not isinstance(document, dict) or "forwarding-graph" not in document:
        hint = ""
        if isinstance(document, dict) and "flow-graph" in document:
            hint = " (flow-graph is the dialect of before 2016, which is not supported)"
        raise GraphRefused("nffg", f"the document has no object forwarding-graph{hint}")
    try:
        graph = ForwardingGraph.model_validate(document["forwarding-graph"])
    except ValidationError as error:
        raise GraphRefused("nffg", describe(error, "forwarding-graph")) from None
    warnings = [f"{key}: unknown key ignored" for key in document if key != "forwarding-graph"]
    warnings += [f"{place}: unknown key ignored" for place in _unknown(graph, "")]
    warnings += list(_unused(graph))
    return graph, warnings


def _unknown(model: BaseModel, place: str) -> Iterator[str]:
    for key in model.model_extra or {}:
        yield f"{place}{key}"
    for name, key in _fields_of(type(model)):
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            yield from _unknown(value, f"{place}{key}.")
        elif isinstance(value, list):
            for number, item in enumerate(value):
                if isinstance(item, FlowRuleModel):  # many, and no models below
                    for extra in item.model_extra or ():
                        yield f"{place}{key}[{number}].{extra}"
                elif isinstance(item, BaseModel):
                    yield from _unknown(item, f"{place}{key}[{number}].")


@lru_cache
def _fields_of(model: type[BaseModel]) -> tuple[tuple[str, str], ...]:
    """The fields of a model, with their names in documents."""
    return tuple((name, field.alias or name) for name, field in model.model_fields.items())


def _unused(graph: ForwardingGraph) -> Iterator[str]:
    """Keys that dialects know and that have no effect here."""
    if graph.unify_monitoring:
        yield "unify-monitoring: not supported, ignored"
    if graph.node_config:
        yield "node-config: not supported, ignored"
