# SPDX-License-Identifier: Apache-2.0
"""A role as a poller, whose delays `polling` tells: cycles by what they are spent on."""

from dataclasses import replace

from headrace.model.mechanistic.amounts import BURST
from headrace.model.mechanistic.fitting import RoleModel
from headrace.model.mechanistic.polling import Poller


def _busy_round(model: RoleModel, amounts: dict[str, float]) -> float:
    """Cycles of a busy round itself, with the queues that it polls."""
    rounds = amounts.get("busy_rounds", 0.0)
    queues = amounts.get("polls", 0.0) / rounds if rounds > 0 else 0.0
    return model.term("busy_rounds") + queues * model.term("polls")


def _per_burst(model: RoleModel, amounts: dict[str, float]) -> float:
    """Cycles of a burst that is alone in its round: from the network and VNFs in proportion."""
    visits = amounts.get("visits", 0.0)
    return model.term("bursts") + visits / (visits + 1) * model.term("visit_takes")


def poller_of(model: RoleModel, amounts: dict[str, float], round_packets: float) -> Poller:
    """A role as a poller with these amounts of its terms for a packet."""
    per_packet = sum(
        model.term(name) * amounts.get(name, 0.0)
        for name in ("packets", "octets", "visits", "visit_octets", "lookups", "doublings")
    )
    return Poller(
        hz=model.hz,
        idle_round=model.idle_round,
        busy_round=_busy_round(model, amounts) or model.idle_round,
        per_wake=model.term("wakes"),
        per_burst=_per_burst(model, amounts),
        per_packet=per_packet,
        per_single=model.term("singles"),
        per_packet_idle=sum(
            model.term(f"cold_{name}") * amounts.get(name, 0.0)
            for name in ("visits", "visit_octets")
        ),
        queues=amounts.get("bursts", 0.0) * BURST,
        round_packets=round_packets,
    )


def at_side(poller: Poller, model: RoleModel, needs: dict[str, float], side: float) -> Poller:
    """A poller whose cycles are at one end of their interval, each term alike."""
    cycles = model.cycles(needs)
    share = model.student * model.deviation(needs) / cycles if cycles > 0 else 0.0
    factor = max(0.05, 1 + side * share)
    return replace(
        poller,
        idle_round=factor * poller.idle_round,
        busy_round=factor * poller.busy_round,
        per_wake=factor * poller.per_wake,
        per_burst=factor * poller.per_burst,
        per_packet=factor * poller.per_packet,
        per_single=factor * poller.per_single,
        per_packet_idle=factor * poller.per_packet_idle,
    )
