# SPDX-License-Identifier: Apache-2.0
"""What /NF-FG takes and answers: the NF-FG, and the state and counters of graphs."""

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from headrace.node.deployment.store import GraphState
from headrace.node.planning.nffg import ForwardingGraph
from headrace.node.rest.contract import Answer
from headrace.switches.base import PortKind

_EXAMPLES = Path(__file__).parents[1] / "examples"


class GraphDocument(BaseModel):
    """An NF-FG, as clients send it and get it back."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)

    forwarding_graph: ForwardingGraph = Field(alias="forwarding-graph")


def examples() -> dict[str, Any]:
    """Graphs that a node without a node.yaml can deploy."""
    return {file.stem: json.loads(file.read_text()) for file in sorted(_EXAMPLES.glob("*.json"))}


class ListedGraph(GraphDocument):
    """A graph with its id."""

    nffg_uuid: str = Field(alias="nffg-uuid")


class GraphList(Answer):
    """Graphs."""

    graphs: list[ListedGraph] = Field(alias="NF-FG")


class NewGraph(Answer):
    """The id that a graph was given."""

    nffg_uuid: str = Field(alias="nffg-uuid")


class VnfStatus(Answer):
    """A VNF as it was found on the machine; `engine` is null if nothing of it runs.

    `cores` are those that it may use, `user` the id of its user on the host, `ports` the kinds of
    its ports by their ids. `ready` is what its readiness probe has found: null if it has none, or
    not yet. `held` says why it is not started again, `probes` what failed, by the kind of probe.
    """

    id: str
    template: str
    engine: str | None
    cores: list[int]
    user: int | None
    ports: dict[str, PortKind]
    running: bool
    ready: bool | None
    restarts: int
    held: str
    probes: dict[str, str]


class HostEndPoint(Answer):
    """An end-point in the host's IP stack: its interface there, and the addresses that it has."""

    id: str
    interface: str | None
    addresses: list[str]


class GraphStatus(Answer):
    """The state of a graph: `status` in the original node's words, `state` in ours.

    `placement` is what the placement policy said of its choice.
    """

    status: Literal["complete", "in_progress", "error"]
    percentage_completed: int = Field(ge=0, le=100)
    state: GraphState
    message: str
    warnings: list[str]
    vnfs: list[VnfStatus]
    placement: dict[str, Any]
    expired_rules: list[str] = Field(alias="expired-rules")
    end_points: list[HostEndPoint] = Field(alias="end-points")


class Counted(Answer):
    """Packets and bytes since the rule was installed; null where the switch doesn't count."""

    packets: int | None
    bytes: int | None


class RuleCounted(Counted):
    """What a flow rule has matched; `expired` is there if it has a timeout."""

    id: str
    expired: bool | None = None


class EndPointCounted(Answer):
    """What came from an end-point, and what the rules let out to it."""

    id: str
    received: Counted
    sent: Counted


class GraphStatistics(Answer):
    """Counters of a graph."""

    rules: list[RuleCounted]
    end_points: list[EndPointCounted] = Field(alias="end-points")
