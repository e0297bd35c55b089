# SPDX-License-Identifier: Apache-2.0
"""What the rules of a graph have counted: by the client's rules, and by end-points.

A rule is counted where it matches, in the LSI in which its packets enter; the rules behind it, on
the links between the LSIs, are counted for the end-points that they lead to. Counters begin when a
rule is installed, and go on while an update leaves it as it is. A switch that does not count by
rule (the kernel's bridge) gives none: null.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from headrace.node.deployment.store import GraphRecord
from headrace.node.planning.flow_rule_model import FlowRuleModel, base_of
from headrace.node.planning.lowering import on_lsi0
from headrace.node.planning.nffg import parse
from headrace.switches.base import RuleStatistics, SwitchDriver
from headrace.switches.rules import Rule

_COUNTED = ("packets", "bytes")


class Counted:
    """What the rules of each LSI have counted; each is asked once, when it is first needed."""

    def __init__(self, driver: SwitchDriver) -> None:
        self._driver = driver
        self._found: dict[str, asyncio.Future[dict[int, RuleStatistics]]] = {}

    async def of(self, lsi: str) -> dict[int, RuleStatistics]:
        """The counters by cookie.

        Raises:
            SwitchError: the switch does not answer.
        """
        if lsi not in self._found:
            self._found[lsi] = asyncio.ensure_future(self._ask(lsi))
        return await self._found[lsi]

    async def _ask(self, lsi: str) -> dict[int, RuleStatistics]:
        return {row.cookie: row for row in await self._driver.rule_statistics(lsi)}


async def graph_statistics(
    counted: Counted,
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
    by_label: dict[str, Counter[str]] = {}
    for rule in record.plan.rules():
        counted_by = (await counted.of(rule.lsi)).get(rule.cookie)
        if counted_by is not None:
            _add(by_label.setdefault(_label_of(rule, record), Counter()), counted_by)
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


async def rule_counters(counted: Counted, record: GraphRecord) -> dict[str, Counter[str]]:
    """What each of the client's rules has counted, by its id; without those that nothing counts.

    Raises:
        SwitchError: the switch does not answer.
    """
    begin = len(record.id) + 1
    ids = _ids_of(record)
    found: dict[str, Counter[str]] = {}
    for rule in record.plan.rules():
        rule_id = _label_of(rule, record)[begin:]
        if rule_id in ids:
            counted_by = (await counted.of(rule.lsi)).get(rule.cookie)
            if counted_by is not None:
                _add(found.setdefault(rule_id, Counter()), counted_by)
    return found


def _add(counter: Counter[str], more: RuleStatistics) -> None:
    counter["packets"] += more.packets
    counter["bytes"] += more.bytes


def _ids_of(record: GraphRecord) -> set[str]:
    """The ids of the client's rules."""
    models = record.document["forwarding-graph"].get("big-switch", {}).get("flow-rules", [])
    return {str(model["id"]) for model in models}


def _label_of(rule: Rule, record: GraphRecord) -> str:
    """The label of a rule; of those that are there for each replica of a VNF, that of the first."""
    base, mark, number = rule.label.rpartition("~")
    if not record.plan.replicas or not mark or not number.isdigit():
        return rule.label
    own = _ids_of(record)
    begin = len(record.id) + 1
    return base if base[begin:] in own and rule.label[begin:] not in own else rule.label


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
        if base_of(getattr(use, direction) or "") == reference
    ]
    direct = [
        # Which of several ports a packet went to is not counted by the rule.
        None if model.is_balanced else own[model.id]
        for model in models
        if (model.match["port_in"] in outer) == (reference in outer)
        and any(target == reference for _, target in model.outputs)
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
