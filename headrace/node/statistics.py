# SPDX-License-Identifier: Apache-2.0
"""What the rules of a graph have counted: by the client's rules, and by end-points.

A rule is counted where it matches, in the LSI in which its packets enter; the rules behind it, on
the links between the LSIs, are counted for the end-points that they lead to. Counters begin when a
rule is installed, and go on while an update leaves it as it is. A switch that does not count by
rule (the kernel's bridge) gives none: null.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from headrace.node.deployment.store import GraphRecord
from headrace.node.planning.lowering import is_balanced, on_lsi0, outputs_of
from headrace.node.planning.nffg import FlowRuleModel, parse
from headrace.switches.base import RuleStatistics, SwitchDriver
from headrace.switches.rules import Rule

_COUNTED = ("packets", "bytes")


async def graph_statistics(
    driver: SwitchDriver,
    record: GraphRecord,
    expired: Mapping[str, RuleStatistics | None] = MappingProxyType({}),
) -> dict[str, Any]:
    """Packets and bytes of each flow rule, and of each end-point by direction.

    `expired` are the rules, by label, that have gone by their timeouts, with what they had counted
    when they were last seen; rules with timeouts say which they are.

    An end-point has received what its rules have matched, and was sent what the rules have let out
    to it; what no rule of the graph matches is not in it.

    Raises:
        SwitchError: the switch does not answer.
    """
    counted = await _counted(driver, record.plan.rules())
    by_label: dict[str, Counter[str]] = {}
    for rule in record.plan.rules():
        if (rule.lsi, rule.cookie) in counted:
            by_label[rule.label] = counted[rule.lsi, rule.cookie]
    for label, last in expired.items():
        by_label[label] = Counter(packets=last.packets, bytes=last.bytes) if last else Counter()
    timed = {rule.label for rule in record.plan.rules() if rule.is_timed}
    graph, _ = parse(record.document)
    outer = on_lsi0(graph)
    models = graph.big_switch.flow_rules
    own = {model.id: by_label.get(f"{record.id}/{model.id}") for model in models}
    return {
        "rules": [
            {
                "id": model.id,
                **_shown(own[model.id]),
                **({"expired": label in expired} if label in timed else {}),
            }
            for model in models
            for label in [f"{record.id}/{model.id}"]
        ],
        "end-points": [
            {
                "id": point.id,
                "received": _shown(_received(f"endpoint:{point.id}", models, own)),
                "sent": _shown(_sent(f"endpoint:{point.id}", outer, record, by_label, models, own)),
            }
            for point in graph.end_points
        ],
    }


async def _counted(
    driver: SwitchDriver, rules: Iterable[Rule]
) -> dict[tuple[str, int], Counter[str]]:
    found: dict[tuple[str, int], Counter[str]] = {}
    for lsi in sorted({rule.lsi for rule in rules}):
        for row in await driver.rule_statistics(lsi):
            found[lsi, row.cookie] = Counter(packets=row.packets, bytes=row.bytes)
    return found


def _received(
    reference: str, models: list[FlowRuleModel], own: dict[str, Counter[str] | None]
) -> Counter[str] | None:
    return _sum(own[model.id] for model in models if model.match["port_in"] == reference)


def _sent(
    reference: str,
    outer: frozenset[str],
    record: GraphRecord,
    by_label: dict[str, Counter[str]],
    models: list[FlowRuleModel],
    own: dict[str, Counter[str] | None],
) -> Counter[str] | None:
    direction = "down" if reference in outer else "up"
    links = [
        by_label.get(f"{record.id}/link {use.number} {direction}")
        for use in record.plan.links
        if getattr(use, direction) == reference
    ]
    direct = [
        # Which of several ports a packet went to is not counted by the rule.
        None if is_balanced(model) else own[model.id]
        for model in models
        if (model.match["port_in"] in outer) == (reference in outer)
        and any(target == reference for _, target in outputs_of(model))
    ]
    return _sum([*links, *direct])


def _sum(counters: Iterable[Counter[str] | None]) -> Counter[str] | None:
    """The sum, None if one is not counted; nothing at all is zero."""
    total: Counter[str] = Counter()
    for counter in counters:
        if counter is None:
            return None
        total += counter
    return total


def _shown(counter: Counter[str] | None) -> dict[str, int | None]:
    return {name: None if counter is None else counter[name] for name in _COUNTED}
