# SPDX-License-Identifier: Apache-2.0
"""The terms come back from synthetic counters, and predictions compose them."""

import dataclasses
import itertools
import json
import math
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typer.testing import CliRunner

from headrace.bench.manifest import machine
from headrace.cli import app
from headrace.model.least_squares import FitError
from headrace.model.mechanistic import polling, stored, validate
from headrace.model.mechanistic.amounts import full_switch, uncached
from headrace.model.mechanistic.capacity import capacity
from headrace.model.mechanistic.explain import explain
from headrace.model.mechanistic.fitting import Fitted, fit_all, fit_role
from headrace.model.mechanistic.learning import Learner
from headrace.model.mechanistic.nffg import NotAGraph, routed, routes
from headrace.model.mechanistic.predict import Graph, NoGrounds, predict
from headrace.model.mechanistic.predict import Path as PathOf
from headrace.model.mechanistic.validate import held_out, median
from headrace.model.mechanistic.windows import Key, Window

HZ = 2e9
SUBJECT = "headrace/in-process+vhost-user"
SWITCH = {
    "packets": 40.0, "octets": 0.05, "visits": 230.0, "visit_octets": 0.1, "bursts": 150.0,
    "busy_rounds": 500.0, "wakes": 120.0,
}  # fmt: skip
VNF = {"packets": 90.0, "octets": 0.02, "bursts": 100.0, "busy_rounds": 200.0}
EXAMPLES = Path(__file__).parents[2] / "headrace" / "node" / "examples"


def window(
    role: str, vnfs: int, size: float, pps: float | None, noise: float = 1.0, **changed: Any
) -> Window:
    """A second of a role whose cycles are those above; overload has full bursts."""
    truth = SWITCH if role == "switch" else VNF
    hops = vnfs + 1 if role == "switch" else 1
    burst = 32.0 if pps is None else max(1.0, 24 * pps / 1e6)
    visits, octets = (vnfs, vnfs * size) if role == "switch" else (0, 0.0)
    per = {"packets": 1.0, "octets": size, "visits": visits, "visit_octets": octets}
    per |= {"bursts": hops / burst, "busy_rounds": 1 / (128.0 if pps is None else burst)}
    per |= {"wakes": 0.0 if pps is None else (0.9 - pps / 1e6) / burst}
    cycles = sum(truth.get(name, 0.0) * amount for name, amount in per.items())
    rate = HZ / cycles if pps is None else pps
    one = Window(
        key=Key(SUBJECT, role, "pass" if role == "VNF" else ""),
        group=f"{vnfs} {size} {pps}",
        vnfs=vnfs,
        size=size,
        load=pps,
        offered=rate,
        through=rate,
        seconds=1.0,
        hz=HZ,
        busy=rate * cycles * noise,
        idle=max(0.0, HZ - rate * cycles),
        idle_rounds=max(0.0, HZ - rate * cycles) / 90,
        limiter=role if pps is None else "generator",
        disturbed=False,
        terms={name: rate * amount for name, amount in per.items()},
    )
    return dataclasses.replace(one, **changed)


def windows(noise: float = 0.0, seed: int = 1) -> list[Window]:
    chance = random.Random(seed)
    return [
        window(role, vnfs, size, pps, 1 + noise * chance.uniform(-1, 1))
        for role in ("switch", "VNF")
        for vnfs in ((0, 1, 2, 3) if role == "switch" else (1, 2, 3))
        for size in (64.0, 512.0, 1518.0)
        for pps in (20e3, 100e3, 400e3, None)
    ]


def model(noise: float = 0.0) -> Fitted:
    return fit_all(windows(noise), {"machine": machine()})


def test_the_terms_come_back() -> None:
    found = model()
    switch = found.roles[Key(SUBJECT, "switch")]
    for name, value in SWITCH.items():
        assert switch.term(name) == pytest.approx(value, rel=1e-6), name
    assert switch.idle_round == pytest.approx(90)
    assert found.roles[Key(SUBJECT, "VNF", "pass")].term("packets") == pytest.approx(90)
    assert any("cycles per visit" in line for line in switch.described())


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000))
def test_with_noise_most_terms_are_within_their_errors(seed: int) -> None:
    switch = fit_role([one for one in windows(0.05, seed) if one.key.role == "switch"])
    visit = switch.term("visits")
    assert abs(visit - SWITCH["visits"]) <= 5 * switch.error("visits") + 1
    assert 0 < switch.residual < 0.1


def test_packets_outside_of_whole_batches_are_told_from_bursts() -> None:
    """Bursts of 1 to 32: up to three packets of each cost 110 cycles more, each burst 200."""
    truth = {"packets": 80.0, "octets": 0.02, "busy_rounds": 200.0, "singles": 110.0}
    made = []
    for burst, size in itertools.product((1, 2, 4, 8, 32), (64.0, 1518.0)):
        packets = 1e5 * burst
        amounts = {"packets": packets, "octets": packets * size, "bursts": packets / burst}
        amounts |= {"busy_rounds": packets / burst, "wakes": 0.0}
        amounts["singles"] = packets / burst * min(burst, 3)
        busy = sum(truth[name] * amounts[name] for name in truth)
        one = window("VNF", 1, size, packets, terms=amounts, busy=busy, group=f"{burst} {size}")
        made.append(one)
        del amounts["singles"]
        assert dataclasses.replace(one, terms=amounts).terms == one.terms  # of an older file
    found = fit_role(made)
    for name, value in truth.items():
        assert found.term(name) == pytest.approx(value, rel=1e-6), name
    full = predict(
        Fitted({**model().roles, found.key: found}), Graph(SUBJECT, (PathOf(("pass",)),)), 64
    )
    assert full.roles[1].cycles.value == pytest.approx(80 + 64 * 0.02 + (200 + 3 * 110) / 32)


def test_overload_tells_what_a_full_queue_keeps_from_the_cache() -> None:
    """0.05 cycles of a byte, of large frames only; a third of the packets is refused besides."""

    def cycles(amounts: dict[str, float]) -> float:
        known = {**SWITCH, "uncached": 0.05}
        return sum(known.get(name, 0.0) * amount for name, amount in amounts.items())

    some = [one for one in windows() if one.key.role == "switch" and one.load is not None]
    tops = []
    for vnfs, size in itertools.product((0, 1, 2, 3), (64.0, 512.0, 1518.0)):
        refused = 0.33 if vnfs else 0.0
        whole = cycles(full_switch(vnfs, vnfs, size, 128))
        whole += refused * cycles(full_switch(0, 0, size, 128))
        one = window("switch", vnfs, size, None, refused=refused, through=HZ / whole)
        tops.append(dataclasses.replace(one, terms={"packets": one.through}))
    found = fit_role([*some, *tops])
    assert found.term("uncached") == pytest.approx(0.05, rel=1e-3)
    assert found.term("visits") == pytest.approx(SWITCH["visits"], rel=1e-3)
    fitted = Fitted({found.key: found})
    for size, more in ((64.0, 0.0), (1518.0, 1518 * 0.05 * uncached(1518))):
        told = predict(fitted, Graph(SUBJECT, (PathOf(("pass",)),)), size).roles[0].cycles.value
        plain = predict(model(), Graph(SUBJECT, (PathOf(("pass",)),)), size).roles[0].cycles.value
        assert told == pytest.approx(plain + more, rel=1e-3)
    (errors,) = held_out([*some, *tops])
    assert max(errors.saturation) < 0.01 and max(errors.saturation_of["length"]) < 0.01


def test_visits_cost_more_where_the_worker_is_idle() -> None:
    """30 cycles of a visit and 0.1 of its byte at an idle worker, nothing at a saturated one."""
    made = []
    for one in (w for w in windows() if w.key.role == "switch" and w.load is not None):
        share = one.idle / (one.idle + one.busy)
        more = share * (30 * one.terms["visits"] + 0.1 * one.terms["visit_octets"])
        terms = {name: value for name, value in one.terms.items() if "cold" not in name}
        whole = one.busy + one.idle
        amounts = {f"cold_{name}": share * terms[name] for name in ("visits", "visit_octets")}
        made.append(dataclasses.replace(one, busy=one.busy + more, idle=whole - one.busy - more,
                                        terms={**terms, **amounts}))  # fmt: skip
    found = fit_role(made)
    assert found.term("cold_visits") == pytest.approx(30, rel=1e-3)
    assert found.term("cold_visit_octets") == pytest.approx(0.1, rel=1e-3)
    graph = Graph(SUBJECT, (PathOf(("pass",)),))
    told = predict(Fitted({found.key: found}), graph, 64)
    plain = predict(model(), graph, 64)
    assert told.saturation_pps.value == pytest.approx(plain.saturation_pps.value, rel=1e-3)
    idle, calm = (
        polling.Poller(HZ, 90, 500, 100, 150, 300, 2),
        polling.Poller(HZ, 90, 500, 100, 150, 300, 2, per_packet_idle=50),
    )
    assert polling.at_load(calm, 1e5).busy_share > polling.at_load(idle, 1e5).busy_share
    assert polling.full_cycles(calm) == polling.full_cycles(idle)


def test_a_saturation_is_the_clock_over_the_cycles_of_the_first_core() -> None:
    told = predict(model(), Graph(SUBJECT, (PathOf(("pass",) * 2),)), 64)
    cycles = 40 + 64 * 0.05 + 2 * 230 + 2 * 64 * 0.1 + 3 / 32 * 150 + 500 / 128
    assert told.saturation_pps.value == pytest.approx(HZ / cycles, rel=1e-6)
    assert told.limiter == ["switch"]
    assert told.saturation_pps.low <= told.saturation_pps.value <= told.saturation_pps.high
    one_core = Graph(SUBJECT, (PathOf(("pass",)),), cores={"switch": 1, "vnf0": 1})
    both = predict(model(), one_core, 64)
    assert set(both.limiter) == {"switch", "vnf0"}
    assert both.latency_us is None


def test_paths_share_what_they_share() -> None:
    """Two VNFs side by side have half of the packets each, the switch has all."""
    graph = Graph(SUBJECT, (PathOf(("pass",), 0.5), PathOf(("pass",), 0.5)), (("a",), ("b",)))
    told = predict(model(), graph, 64, 1e6)
    one = predict(model(), Graph(SUBJECT, (PathOf(("pass",)),)), 64, 1e6)
    cycles = {part.role: part.cycles.value for part in told.roles}
    assert cycles["switch"] == pytest.approx(one.roles[0].cycles.value)
    assert cycles["a"] == pytest.approx(one.roles[1].cycles.value / 2)


def test_pollers_on_one_core_have_an_upper_bound_and_no_certain_demand() -> None:
    paths = (PathOf(("pass", "pass")),)
    own = predict(model(), Graph(SUBJECT, paths), 64, 1e4)
    shared = predict(model(), Graph(SUBJECT, paths, cores={"vnf0": 0, "vnf1": 0}), 64, 1e4)
    assert own.met is True and own.upper_bound == ""
    assert shared.met is None and "vnf0, vnf1 on 0" in shared.upper_bound
    far = predict(model(), Graph(SUBJECT, paths, cores={"vnf0": 0, "vnf1": 0}), 64, 1e9)
    assert far.met is False


def test_vnfs_that_yield_their_core_to_each_other_are_predicted() -> None:
    """A change of the poller is some cycles of the packets of a turn; with a switch it is none."""
    paths, cores = (PathOf(("pass",) * 3),), {"vnf0": 0, "vnf1": 0, "vnf2": 0}
    measured = Fitted({**model().roles}, {}, {"context_switch_cycles": 10240.0})
    graph = Graph(SUBJECT, paths, cores=cores, yields=True)
    told = predict(measured, graph, 64, 1e4)
    assert told.upper_bound == "" and told.met is True and told.latency_us is None
    vnfs = [one for one in told.roles if one.role != "switch"]
    assert [one.parts["switches"] for one in vnfs] == [pytest.approx(10)] * 3
    alone = predict(model(), Graph(SUBJECT, paths), 64).roles[1].cycles.value
    assert vnfs[0].cycles.value == pytest.approx(alone + 10)
    slow = Fitted({**model().roles}, {}, {"context_switch_cycles": 1e7})
    limited = predict(slow, graph, 64)
    assert limited.limiter == ["vnf0", "vnf1", "vnf2"]
    assert limited.saturation_pps.value == pytest.approx(HZ / (3 * (alone + 1e7 / 1024)), rel=1e-6)
    for other in (
        predict(measured, dataclasses.replace(graph, yields=False), 64, 1e4),
        predict(model(), graph, 64, 1e4),  # what it costs was not measured
        predict(measured, dataclasses.replace(graph, cores={"switch": 0, "vnf0": 0}), 64, 1e4),
    ):
        assert "share a core" in other.upper_bound and other.met is None


def test_a_demand_beyond_saturation_is_lost_in_part_and_can_not_be_met() -> None:
    graph = Graph(SUBJECT, (PathOf(("pass",)),))
    top = predict(model(), graph, 64).saturation_pps.value
    told = predict(model(), graph, 64, 2 * top)
    assert told.loss is not None and told.loss.value == pytest.approx(0.5, abs=0.01)
    assert told.met is False and told.latency_us is None
    calm = predict(model(), graph, 64, top / 4)
    assert calm.met is True and calm.loss is not None and calm.loss.value == 0
    assert calm.capacity_used is not None
    assert calm.capacity_used.value == pytest.approx(0.25)
    assert calm.latency_us is not None and 0 < calm.latency_us[0] < calm.latency_us[1]
    mean = calm.latency_mean_us
    assert mean is not None and mean.value == calm.latency_us[0]
    rough = predict(model(0.1), graph, 64, top / 4).latency_mean_us
    assert rough is not None and rough.low < rough.value < rough.high
    assert rough.high - rough.low > mean.high - mean.low
    near = predict(model(0.1), graph, 64, 0.97 * top)
    if near.latency_us is not None:  # the interval leaves open that it is saturated
        assert near.latency_mean_us is not None and near.latency_mean_us.high == math.inf
    assert told.latency_mean_us is None


def test_nothing_is_predicted_without_grounds() -> None:
    graph = Graph(SUBJECT, (PathOf(("dpi",)),))
    told = predict(model(), graph, 64, 1e5)
    assert told.partial and "dpi" in told.lacking["vnf0"] and told.met is None
    with pytest.raises(NoGrounds, match="nothing was measured of 'vpp/memif'"):
        predict(model(), dataclasses.replace(graph, subject="vpp/memif"), 64)
    for size, demand in ((63, 1.0), (math.nan, 1.0), (64, 0.0), (64, math.inf)):
        with pytest.raises(NoGrounds):
            predict(model(), graph, size, demand)
    long = predict(model(), Graph(SUBJECT, (PathOf(("pass",) * 9),)), 9000, 1e5)
    assert len(long.outside) == 2
    with pytest.raises(FitError, match="needs at least"):
        fit_role(windows()[:3])


def test_a_prediction_holds_for_the_distance_of_the_cores_that_was_measured() -> None:
    """Roles of two states are told, a state of now that is another is refused; p2p has none."""

    def at(switch: float, vnf: float) -> Fitted:
        some = {"switch": switch, "VNF": vnf}
        return fit_all([dataclasses.replace(w, transfer_ns=some[w.key.role]) for w in windows()])

    graph, port_to_port = Graph(SUBJECT, (PathOf(("pass",)),)), Graph(SUBJECT, (PathOf(()),))
    told = predict(at(190, 200), graph, 64, transfer_ns=185)
    assert told.transfer_ns in (190, 200) and told.outside == []
    with pytest.raises(NoGrounds, match="cores are 580 ns apart, 190 ns when"):
        predict(at(190, 190), graph, 64, transfer_ns=580)
    assert predict(at(190, 190), port_to_port, 64, transfer_ns=580).transfer_ns is None
    apart = at(190, 580)  # the roles of one fit are of one state: there is no VNF of it
    assert "no window with the cores 190 ns apart" in apart.failures[f"{SUBJECT} VNF pass"]
    assert "vnf0" in predict(apart, graph, 64).lacking
    other = at(580, 580).roles[Key(SUBJECT, "VNF", "pass")]
    mixed = dataclasses.replace(apart, roles={**apart.roles, other.key: other})
    assert "switch 190 ns, vnf0 580 ns" in predict(mixed, graph, 64).outside[-1]
    assert predict(model(), graph, 64, transfer_ns=580).transfer_ns is None


def test_an_explanation_names_the_largest_term_and_what_helps() -> None:
    told = explain(model(), Graph(SUBJECT, (PathOf(("pass",) * 3),)), 64)
    assert told.dominant[0][:2] == ("switch", "visits")
    assert sum(share for *_, share in told.dominant) == pytest.approx(1)
    factors = {change.what: change.factor for change in told.changes}
    assert factors["direct links between the VNFs"] > 2
    assert factors["2 workers of the switch"] == pytest.approx(2)


@given(st.floats(1e3, 5e7), st.floats(10, 2000), st.floats(1, 4))
def test_a_poller_is_busier_at_a_higher_load(pps: float, cycles: float, queues: float) -> None:
    poller = polling.Poller(HZ, 90, 500, 100, 150, cycles, queues, 128)
    one, more = polling.at_load(poller, pps), polling.at_load(poller, pps * 1.5)
    assert one.saturated == (pps >= HZ / polling.full_cycles(poller))
    assert 0 < one.busy_share <= more.busy_share <= 1
    assert one.mean_delay_s <= one.max_delay_s
    assert more.round_s >= one.round_s * (1 - 1e-6)


def test_held_out_errors_are_those_of_the_noise() -> None:
    exact = {errors.key.role: errors for errors in held_out(windows())}
    assert exact["switch"].capacity.keys() == {"length", "size", "load"}
    assert max(exact["switch"].all_capacity()) < 0.02
    assert max(exact["switch"].saturation) < 1e-6
    worse = {errors.key.role: errors for errors in held_out(windows(0.1))}["switch"]
    found, theirs = median(worse.all_capacity()), median(worse.all_power_law())
    assert found is not None and theirs is not None
    assert 0.01 < found < 0.15 and theirs > found


def test_a_function_with_its_ports_is_predicted_from_windows_of_neither_with_the_other() -> None:
    """The function costs 60 cycles, the other ports 30: their sum is only in what is left out."""

    def of(subject: str, function: str, more: float) -> list[Window]:
        key = Key(subject, "VNF", function)
        made = [one for one in windows() if one.key.role == "VNF" and one.load is not None]
        return [
            dataclasses.replace(one, key=key, busy=one.busy + more * one.terms["packets"])
            for one in made
        ]

    three = [
        *of(SUBJECT, "pass", 0),
        *of(SUBJECT, "firewall", 60),
        *of("headrace/in-process+shm", "pass", 30),
    ]
    last = "headrace/in-process+shm", "firewall"
    for truth, error in ((90, 0.0), (120, 30 / 120)):
        found = {str(one.key): one for one in held_out([*three, *of(*last, truth)])}
        errors = found["headrace/in-process+shm VNF firewall"].capacity[validate.COMPOSED]
        assert max(errors) <= error + 1e-6 and (error == 0 or max(errors) > 0.02)
    found = {str(one.key): one for one in held_out(three)}
    assert validate.COMPOSED in found[f"{SUBJECT} VNF pass"].no_grounds


def test_saturation_held_out_is_fitted_to_nothing_of_the_graph() -> None:
    """One length whose packets cost twice as much below overload: only its own fold misses that."""
    some = [one for one in windows() if one.key.role == "switch"]
    odd = [
        dataclasses.replace(one, busy=2 * one.busy, through=one.through / (1 if one.load else 2))
        if one.vnfs == 3
        else one
        for one in some
    ]
    exact, found = held_out(some)[0], held_out(odd)[0]
    assert exact.saturation_of.keys() == {"length", "size"}
    assert max(exact.all_saturation()) < 1e-6
    assert max(found.saturation_of["length"]) > 0.9


def test_capacity_falls_from_where_the_workers_are_used_up() -> None:
    told = capacity(model(), SUBJECT, "pass", 64, 6)
    one = [row for row in told.rows if row.workers == 1]
    assert one[0].each_pps == pytest.approx(told.alone_pps)
    assert all(a.each_pps >= b.each_pps for a, b in itertools.pairwise(one))
    demand = capacity(model(), SUBJECT, "pass", 64, 12, 1e6)
    top = predict(model(), Graph(SUBJECT, (PathOf(("pass",)),)), 64).roles[0].cycles.value
    assert demand.fit[1] == int(HZ / top / 1e6)
    assert demand.best.total_pps == max(row.total_pps for row in demand.rows)
    with pytest.raises(NoGrounds):
        capacity(model(), SUBJECT, "dpi", 64, 6)


def test_learning_follows_a_machine_that_slows_down_and_ignores_what_is_disturbed() -> None:
    switch = model(0.03).roles[Key(SUBJECT, "switch")]
    learner = Learner.of(switch)
    chance = random.Random(2)
    for number in range(300):
        one = window("switch", number % 4, chance.choice([64.0, 1518.0]), chance.uniform(2e4, 4e5))
        slow = dataclasses.replace(one, busy=1.2 * one.busy)
        assert learner.update(slow) == "learned"
        wrong = dataclasses.replace(one, busy=1.6 * one.busy, disturbed=True)
        assert learner.update(wrong) == "disturbed"
    last = window("switch", 2, 512.0, 2e5)
    assert learner.model.cycles(last.terms) == pytest.approx(1.2 * last.busy, rel=0.03)
    assert learner.update(dataclasses.replace(last, busy=20 * last.busy)) == "outlier"
    assert learner.update(window("VNF", 1, 64.0, 1e5)) == "other role"
    assert learner.update(dataclasses.replace(last, busy=0.0)) == "empty"


def test_a_table_of_prefixes_costs_a_lookup_or_is_not_known() -> None:
    some = [one for one in windows() if one.key.role == "switch" and one.load is not None]
    routed_too = [
        dataclasses.replace(
            one,
            group=f"routed {one.group}",
            busy=one.busy + 70 * one.terms["packets"],
            terms={**one.terms, "lookups": one.terms["packets"]},
        )
        for one in some
    ]
    found = fit_role([*some, *routed_too])
    plain = Graph(SUBJECT, (PathOf(()),))
    graph = dataclasses.replace(plain, routed=True)
    more, less = (
        predict(Fitted({found.key: found}), one, 64).roles[0].cycles for one in (graph, plain)
    )
    assert more.value == pytest.approx(less.value + 70, rel=1e-6)
    unknown = predict(model(), graph, 64, 1e3)
    assert "table of prefixes" in unknown.lacking["rules"] and unknown.met is None


def test_rules_are_prefixes_if_they_leave_bits_of_addresses_open() -> None:
    def of(**match: Any) -> bool:
        rule = {"match": {"port_in": "endpoint:a", **match}, "actions": []}
        return routed({"big-switch": {"flow-rules": [rule]}})

    assert of(dest_ip="10.0.0.0/8") and of(source_ip="10.0.0.0/255.0.0.0")
    assert of(dest_ip="2001:db8::/32") and of(dest_ip="10.9.0.0", ipv4_dst_mask="255.255.0.0")
    assert not of() and not of(dest_ip="10.0.0.1") and not of(dest_ip="10.0.0.1/32")
    assert not of(dest_ip="none")


def test_paths_of_graphs() -> None:
    chain = json.loads((EXAMPLES / "chain.json").read_text())
    (route,) = [one for one in routes(chain) if one.vnfs[0] == "firewall"]
    assert route.vnfs == ("firewall", "dpi")
    assert sum(one.share for one in routes(chain)) == pytest.approx(1)
    for path in EXAMPLES.glob("*.json"):
        assert sum(one.share for one in routes(json.loads(path.read_text()))) == pytest.approx(1)
    with pytest.raises(NotAGraph, match="no rule matches"):
        routes({"big-switch": {"flow-rules": []}})
    with pytest.raises(NotAGraph, match="no NF-FG"):
        routes({"a": 1})
    loop = {"big-switch": {"flow-rules": [
        {"match": {"port_in": "endpoint:a"}, "actions": [{"output_to_port": "vnf:x:p:0"}]},
        {"match": {"port_in": "vnf:x:p:1"}, "actions": [{"output_to_port": "vnf:x:p:0"}]},
    ]}}  # fmt: skip
    with pytest.raises(NotAGraph, match="no rules lead"):
        routes(loop)


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["model", *words])


def test_the_commands(tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    stored.write(model(0.02), file)
    assert stored.dump(stored.read(file)) == stored.dump(model(0.02))
    use = ["--model", str(file)]
    assert "cycles per visit" in run("show", *use).stdout
    told = json.loads(run("predict", "pvvp3", "--pps", "1e5", "--json", *use).stdout)
    assert told["met"] is True and told["subject"] == SUBJECT
    assert run("predict", "pvp", "--pps", "5e8", *use).exit_code == 4
    shared = ["pvvp2", "--cores", "vnf0=0,vnf1=0", "--json", *use]
    assert "share a core" in json.loads(run("predict", *shared).stdout)["upper_bound"]
    measured = model(0.02)
    measured.manifest["context_switch_cycles"] = 2000.0
    stored.write(measured, file)
    assert json.loads(run("predict", *shared, "--yields").stdout)["upper_bound"] == ""
    assert run("predict", "pvp", "--function", "dpi", *use).exit_code == 3
    ran = run("predict", str(EXAMPLES / "chain.json"), "--function", "pass", *use)
    assert ran.exit_code == 0, ran.stderr
    assert "visits" in run("explain", "pvvp2", "--plot", str(tmp_path / "a.svg"), *use).stdout
    assert (tmp_path / "a.svg").read_text().startswith("<svg")
    assert run("compare", "p2p", *use).exit_code == 0
    assert "best split" in run("capacity", "--cores", "4", *use).stdout
    other = {
        dataclasses.replace(key, subject="headrace/in-process+shm"): dataclasses.replace(
            role, key=dataclasses.replace(key, subject="headrace/in-process+shm")
        )
        for key, role in measured.roles.items()
    }
    stored.write(Fitted({**measured.roles, **other}, {}, measured.manifest), file)
    told = json.loads(run("capacity", "--cores", "4", "--json", *use).stdout)
    assert {told["subject"], told["kinds"][0]["subject"]} == {SUBJECT, "headrace/in-process+shm"}
    assert "with headrace/in-process+" in run("capacity", "--cores", "4", *use).stdout
    for words in (["pvvp0"], ["nothing.json"], ["pvp", "--subject", "x"], ["pvp", "--cores", "y"]):
        ran = run("predict", *words, *use)
        assert ran.exit_code == 1 and ran.stderr.startswith("headrace model:"), words


def test_too_few_results_are_no_model(tmp_path: Path) -> None:
    file, model = tmp_path / "windows.json", tmp_path / "model.json"

    def fit(some: list[Window]) -> Any:
        body = {"manifest": {}, "windows": [dataclasses.asdict(one) for one in some]}
        file.write_text(json.dumps(body))
        return run("fit", "--windows", str(file), "--output", str(model))

    few = [window("switch", 0, 64.0, 1e5)] * 3
    ran = fit(few)
    assert ran.exit_code == 1 and not model.exists()
    assert "too few windows" in ran.stderr and "at least 5" in ran.stderr
    # What can't be fitted is named, and the rest is a model.
    ran = fit(
        [one for one in windows() if one.key.role == "switch"] + [window("VNF", 1, 64.0, 1e5)]
    )
    assert ran.exit_code == 0 and "not fitted" in ran.stderr and "VNF" in ran.stderr
    assert [key.role for key in stored.read(model).roles] == ["switch"]


def test_a_model_of_another_machine_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "model.json"
    there = {**machine(), "processor": "another"}
    stored.write(fit_all(windows(), {"machine": there}), file)
    ran = run("predict", "pvp", "--model", str(file))
    assert ran.exit_code == 1 and "another machine" in ran.stderr
    told = json.loads(
        run("predict", "pvp", "--other-machine", "--json", "--model", str(file)).stdout
    )
    assert any("another machine" in note for note in told["notes"])


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"version": 9}'])
def test_a_file_that_is_no_model_is_refused(tmp_path: Path, damage: str) -> None:
    file = tmp_path / "model.json"
    file.write_text(damage)
    with pytest.raises(stored.ModelFileError):
        stored.read(file)
    content = stored.dump(model())
    content["roles"][0]["values"] = [float("nan")] * len(content["roles"][0]["values"])
    file.write_text(json.dumps(content))
    with pytest.raises(stored.ModelFileError):
        stored.read(file)


def test_placement_takes_cycles_from_the_model(tmp_path: Path) -> None:
    file, place = tmp_path / "model.json", tmp_path / "place.yaml"
    stored.write(model(), file)
    kind = f"{{cores: 4, ghz: 2, memory_mb: 4096, link_gbps: 10, cycles: {{subject: {SUBJECT}}}}}"
    place.write_text(
        f"types: {{a: {kind}}}\nservers: [{{name: s, type: a}}]\n"
        "functions: {f: {cores: 1}}\nchains: [{name: c, vnfs: [f, f], kpps: 1000, bytes: 64}]\n"
    )
    ran = CliRunner().invoke(app, ["place", str(place), "--model", str(file), "--json"])
    assert ran.exit_code == 0, ran.stderr
    told = json.loads(ran.stdout)["servers"]["s"]
    entry, visit = 40 + 150 / 32 + 500 / 128, 230 + 150 / 32
    cycles = entry + 2 * visit + 3 * 64 * 0.1
    assert told["switch"] == pytest.approx(1e6 * cycles / (2e9 * 0.9), rel=1e-3)
    place.write_text(place.read_text().replace(SUBJECT, "vpp/memif"))
    ran = CliRunner().invoke(app, ["place", str(place), "--model", str(file)])
    assert ran.exit_code == 1 and "no visits" in ran.stderr
