# SPDX-License-Identifier: Apache-2.0
"""Flow rules as they were read and lowered before: an update then costs what it changes.

A rule is known by its text, Python's of what its JSON was (of which `true`, `1` and `"1"` differ).
What is read of it depends on that alone. What it is lowered to depends on its label and
its way (`lowering.py`) besides, and is kept for the last of these. So a plan is the same with and
without; a test compares them. The rules that were not asked for the longest are forgotten.
"""

from dataclasses import dataclass
from typing import Any

from headrace.node.planning.flow_rule_model import FlowRuleModel
from headrace.node.planning.nffg import MAX_RULES, ForwardingGraph, parse
from headrace.node.planning.resources import RuleResource

_MOST = MAX_RULES + 4096


@dataclass(slots=True)
class _Known:
    """A rule by its text: as it is read, and as it was lowered for a label and a way."""

    model: FlowRuleModel
    label: str = ""
    way: str = ""
    resource: RuleResource | None = None


class KnownRules:
    """The last `most` rules of all graphs; belongs to the node's event loop."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._by_text: dict[str, _Known] = {}  # the one that was asked for last is last
        self._by_model: dict[int, _Known] = {}  # by id(): an entry keeps its model
        self._last: tuple[Any, ForwardingGraph, list[str]] | None = None

    def read(self, document: Any) -> tuple[ForwardingGraph, list[str]]:
        """The graph of a document, and warnings: see nffg.parse.

        A request is read more than once; its document must not be changed meanwhile.

        Raises:
            GraphRefused: as nffg.parse does.
        """
        if self._last is None or self._last[0] is not document:
            self._last = (document, *self._read(document))
        return self._last[1], list(self._last[2])

    def forget_document(self) -> None:
        """Lets go of the document that was read last."""
        self._last = None

    def _read(self, document: Any) -> tuple[ForwardingGraph, list[str]]:
        rules = _rules_of(document)
        texts = [repr(rule) for rule in rules]
        if not texts:
            return parse(document)
        found = [self._find(text) for text in texts]
        known = [
            rule if have is None else have.model for rule, have in zip(rules, found, strict=True)
        ]
        graph, warnings = parse(_with_rules(document, known))
        for text, have, model in zip(texts, found, graph.big_switch.flow_rules, strict=True):
            if have is None:
                self._keep(text, model)
        return graph, warnings

    def _find(self, text: str) -> _Known | None:
        found = self._by_text.pop(text, None)
        if found is not None:
            self._by_text[text] = found
        return found

    def _keep(self, text: str, model: FlowRuleModel) -> None:
        if text in self._by_text:  # twice in one document
            return
        self._by_text[text] = self._by_model[id(model)] = _Known(model)
        if len(self._by_text) > self._most:
            oldest = self._by_text.pop(next(iter(self._by_text)))
            del self._by_model[id(oldest.model)]

    def lowered(self, model: FlowRuleModel, label: str, way: str) -> RuleResource | None:
        """What a rule with this label and way was lowered to; None if that is not known."""
        found = self._by_model.get(id(model))
        if found is None or found.label != label or found.way != way:
            return None
        return found.resource

    def note_lowered(
        self, model: FlowRuleModel, label: str, way: str, resource: RuleResource
    ) -> None:
        """Notes what a rule has been lowered to, if it is one that was read here."""
        found = self._by_model.get(id(model))
        if found is not None:
            found.label, found.way, found.resource = label, way, resource


def _rules_of(document: Any) -> list[Any]:
    """The flow rules as they are written, if they are where they should be."""
    found = document
    for key in ("forwarding-graph", "big-switch", "flow-rules"):
        if not isinstance(found, dict) or key not in found:
            return []
        found = found[key]
    return found if isinstance(found, list) else []


def _with_rules(document: dict[str, Any], rules: list[Any]) -> dict[str, Any]:
    graph = document["forwarding-graph"]
    switch = {**graph["big-switch"], "flow-rules": rules}
    return {**document, "forwarding-graph": {**graph, "big-switch": switch}}
