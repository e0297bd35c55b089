# SPDX-License-Identifier: Apache-2.0
"""What a packet's visit to a VNF costs at the margin, by kind of the VNF's ports.

From the fitted terms of the subjects that differ in the kind of ports only: the switch's cycles for
taking a packet to a VNF and back, and the VNF's own, with full bursts. Between two VNFs that a
direct link joins the switch does nothing, so a visit less is counted.

`reference()` are terms that were measured on another machine and come with the program. Kinds of
ports compare by them where the machine at hand was not measured; as rates they say nothing here.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from headrace.model.mechanistic import stored
from headrace.model.mechanistic.amounts import BURST, round_packets_of
from headrace.model.mechanistic.fitting import Fitted, RoleModel
from headrace.model.mechanistic.predict import vnf_amounts
from headrace.model.mechanistic.windows import Key

REFERENCE = Path(__file__).with_name("reference.json")
PLAIN = "pass"
"""The function that does nothing to packets: its cycles are those of its ports."""


@dataclass(frozen=True)
class Visit:
    """One kind of ports: TSC cycles of a packet's visit.

    Attributes:
        switch: the switch's.
        vnf: by function, the VNF's.
    """

    kind: str
    switch: float
    vnf: Mapping[str, float] = field(default_factory=dict)

    def own(self, function: str) -> float | None:
        """The VNF's cycles; of a function that was not measured, its ports'. None: neither."""
        return self.vnf.get(function, self.vnf.get(PLAIN))


def visits_of(fitted: Fitted, switch: str, size: float) -> dict[str, Visit]:
    """By kind of ports, the visit of a packet of `size` bytes (with FCS) on a switch.

    A kind without a switch's term for visits, or without any VNF, is left out.
    """
    found: dict[str, Visit] = {}
    for subject in fitted.subjects():
        name, _, ports = subject.partition("/")
        outer, _, kind = ports.rpartition("+")
        model = fitted.roles.get(Key(subject, "switch"))
        if name != switch or not outer or kind in found or model is None:
            continue
        vnf = {
            key.function: role.cycles(vnf_amounts(size))
            for key, role in fitted.roles.items()
            if key.subject == subject and key.role == "VNF"
        }
        cycles = _visit(model, subject, size)
        if cycles > 0 and vnf:
            found[kind] = Visit(kind, cycles, vnf)
    return found


def _visit(model: RoleModel, subject: str, size: float) -> float:
    if not (model.term("visits") or model.term("visit_octets")):
        return 0.0
    # Each VNF's two queues are polled in the rounds that take the packets; one brings them back.
    rounds = (2 * model.term("polls") + model.term("visit_takes")) / round_packets_of(subject)
    more = model.term("bursts") / BURST + rounds
    return model.term("visits") + size * model.term("visit_octets") + more


@cache
def reference() -> Fitted:
    """The terms that come with the program, with the machine they are of in their manifest."""
    return stored.read(REFERENCE)
