# SPDX-License-Identifier: Apache-2.0
"""Who decides which template, kind of ports and cores each new VNF of a graph gets.

Planning asks a policy once for each graph, with everything that may be chosen: for each VNF the
templates and kinds of ports that the node can give it, and the cores with their users and NUMA
nodes. The answer is checked and stored with the graph's plan. A policy has no side effects, so the
same question has the same answer; it does not see VNFs that stay as they are.

`first-fit` chooses the first candidate and the cores with the fewest pollers. node.yaml's
`placement` names the policy (policies.py); `first-fit` is what a node does without any other.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from headrace.engines.base import VnfSpec
from headrace.node.errors import GraphRefused
from headrace.node.planning.nffg import ForwardingGraph
from headrace.node.templates import Template
from headrace.switches.base import PortKind


@dataclass(frozen=True)
class Candidate:
    """A way to run a VNF: a template, and the kind of its ports to the switch."""

    template: Template
    kind: PortKind


@dataclass(frozen=True)
class CoreUse:
    """A core of role `vnf`: its NUMA node, and how many pollers it has already."""

    core: int
    numa: int
    pollers: int


@dataclass(frozen=True)
class PlacementQuestion:
    """What may be chosen. `candidates` has the VNFs to be placed, the node's own preference first.

    `staying` are VNFs of the graph that keep their place; `free_mb` is what is left of the node's
    memory.
    """

    graph: ForwardingGraph
    switch: str
    switch_cores: tuple[CoreUse, ...]
    cores: tuple[CoreUse, ...]
    free_mb: int
    candidates: Mapping[str, tuple[Candidate, ...]]
    staying: Mapping[str, VnfSpec]


@dataclass(frozen=True)
class Choice:
    """Where one VNF goes; without `cores` the node takes those with the fewest pollers."""

    candidate: Candidate
    cores: tuple[int, ...] = ()


@dataclass(frozen=True)
class Decision:
    """The choice for each VNF by its id; `details` are stored with the plan (JSON)."""

    choices: Mapping[str, Choice]
    details: Mapping[str, Any] = field(default_factory=dict)


class PlacementPolicy(Protocol):
    """Chooses; named in node.yaml by `name`."""

    name: str

    def decide(self, question: PlacementQuestion) -> Decision:
        """The choices for all VNFs of the question.

        Raises:
            PolicyError: it cannot decide; the node then does as `first-fit` and warns.
        """
        ...


class PolicyError(Exception):
    """A policy cannot decide; the text says what it lacks."""


class FirstFit:
    """The first candidate of each VNF, on the cores with the fewest pollers."""

    name = "first-fit"

    def decide(self, question: PlacementQuestion) -> Decision:
        """See PlacementPolicy."""
        return Decision({vnf: Choice(found[0]) for vnf, found in question.candidates.items()})


FIRST_FIT = FirstFit()


def decide(policy: PlacementPolicy, question: PlacementQuestion) -> tuple[Decision, list[str]]:
    """The decision of a policy, checked against the question, and warnings.

    Raises:
        GraphRefused: the policy chose what it was not offered, which is a fault of the policy.
    """
    try:
        decision = policy.decide(question)
    except PolicyError as error:
        text = f"placement {policy.name}: {error}; placed by {FIRST_FIT.name}"
        return FIRST_FIT.decide(question), [text]
    pool = {use.core for use in question.cores}
    for vnf, candidates in question.candidates.items():
        choice = decision.choices.get(vnf)
        wrong = (
            "no choice"
            if choice is None
            else "a template and kind of ports that it was not offered"
            if choice.candidate not in candidates
            else _wrong_cores(choice, pool)
        )
        if wrong:
            raise GraphRefused("placement", f"VNF {vnf}: policy {policy.name} gave {wrong}")
    return decision, []


def _wrong_cores(choice: Choice, pool: set[int]) -> str:
    wanted: Sequence[int] = choice.cores
    if wanted and (len(set(wanted)) != choice.candidate.template.cores or not set(wanted) <= pool):
        return f"cores {list(wanted)}, not {choice.candidate.template.cores} of {sorted(pool)}"
    return ""
