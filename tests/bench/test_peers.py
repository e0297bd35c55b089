# SPDX-License-Identifier: Apache-2.0
"""`headrace bench peers`: which cases there are, and what becomes of windows."""

import pytest

from headrace.bench.peers import cases, figures, suites
from headrace.bench.peers.account import Account, Counters
from headrace.bench.peers.cases.case import Case
from headrace.bench.peers.compare import Outcome
from headrace.bench.peers.systems import PeerError
from headrace.bench.rows import Row
from headrace.machine.tsc import tsc_hz


def test_every_case_of_the_comparison_is_there_once() -> None:
    """Every kind of pipeline, with few and many flows, and every firewall."""
    names = [case.name for case in suites.chosen_cases("")]
    assert len(names) == len(set(names))
    assert {
        "l2-100macs-100flows",
        "l2-100macs-10kflows",
        "l3-1prefix-1flows",
        "l3-100prefixes-100flows",
        "l3-2kprefixes-10kflows",
        "l3-2kprefixes-500kflows",
        "l3-10kmixed-1flows",
        "l3-10kmixed-100flows",
        "l3-10kmixed-10kflows",
        "l3-10kmixed-500kflows",
        "access-gateway-10kusers",
        "gateway-up-10kflows",
        "gateway-down-10kflows",
        "l3-ipv6-2kprefixes-100flows",
        "l3-ipv6-2kprefixes-10kflows",
        "normal-100macs",
        "normal-10kmacs",
        "vlan-push-100rules-10kflows",
        "vlan-pop-100rules-10kflows",
        "group-all-4ports-100flows",
        "metadata-10tables-100flows",
        "dscp-goto-10kflows",
        "nat-10krules-10kflows",
        "firewall-acl-ipv6-10krules-even",
        "firewall-acl-ipv6-10krules-zipf",
        *(
            f"firewall-{seed}-{size}rules-{traffic}"
            for seed in ("acl", "fw", "ipc")
            for size in ("1k", "10k", "100k")
            for traffic in ("even", "zipf")
        ),
    } == set(names)


def test_cases_are_chosen_by_words() -> None:
    """Any of the words will do; none that fits is an error that lists them."""
    chosen = suites.chosen_cases("gateway-up, l2-100macs-100flows")
    assert [case.name for case in chosen] == ["l2-100macs-100flows", "gateway-up-10kflows"]
    with pytest.raises(PeerError, match="l3-1prefix-1flows"):
        suites.chosen_cases("nonsense")


def _case(name: str) -> Case:
    return next(case for case in cases.all_cases() if case.name == name)


def _rows(name: str, ours: list[float], peer: Outcome) -> dict[str, Row]:
    outcomes = {
        "headrace": Outcome("headrace", "", ours),
        "ovs-dpdk": peer,
        "l3fwd": Outcome("l3fwd", "", [], "not installed"),
    }
    return {row.name: row for row in figures.rows_of(_case(name), outcomes)}


def test_ratios_are_of_neighboring_windows() -> None:
    """The median of the pairs' ratios, against the case's goal; the best setting at the peer."""
    name = "l3-100prefixes-100flows"
    rows = _rows(name, [40e6, 30e6, 50e6], Outcome("ovs-dpdk", "emc off", [10e6, 10e6, 10e6]))
    ratio = rows[f"{name} headrace/ovs-dpdk"]
    assert (ratio.value, ratio.goal, ratio.met) == (4.0, 4.0, True)
    assert rows[f"{name} ovs-dpdk"].note == "best setting: emc off"


def test_cycles_are_counted_here_and_at_the_published_clock() -> None:
    """The goal is that of the counter here; the same time stands beside it at 2.0 GHz."""
    name = "l3-100prefixes-100flows"
    rows = _rows(name, [50e6], Outcome("ovs-dpdk", "emc off", [10e6]))
    here, there = rows[f"{name} headrace cycles"], rows[f"{name} headrace cycles at 2.0 GHz"]
    assert here.value == pytest.approx(tsc_hz() / 50e6)
    assert there.value == pytest.approx(40.0)
    assert here.goal == 55
    assert rows[f"{name} headrace time"].value == pytest.approx(20.0)
    assert rows[f"{name} headrace time"].note == "VPP: 75 at 2.0 GHz, 37.5 ns"
    assert here.met is (tsc_hz() / 50e6 <= 55)


def test_a_peer_that_is_missing_fails_its_ratio() -> None:
    """No row is silently left out where the peer could have taken part."""
    name = "l3-1prefix-1flows"
    rows = _rows(name, [50e6], Outcome("ovs-dpdk", "", [], "not installed"))
    assert rows[f"{name} headrace/ovs-dpdk"].met is False
    assert "not installed" in str(rows[f"{name} headrace/l3fwd"].skipped)


def test_a_switch_that_fails_has_no_ratio() -> None:
    """Its rows say why, and the command's exit code goes by them."""
    outcomes = {
        "headrace": Outcome("headrace", "", [], "no packets came out"),
        "ovs-dpdk": Outcome("ovs-dpdk", "emc off", [1e6]),
    }
    rows = {row.name: row for row in figures.rows_of(_case("l2-100macs-100flows"), outcomes)}
    ratio = rows["l2-100macs-100flows headrace/ovs-dpdk"]
    assert ratio.value is None
    assert ratio.skipped == "headrace: no packets came out"
    assert not any("l3fwd" in name for name in rows)


def test_flatness_is_from_one_flow_to_half_a_million() -> None:
    """Window by window; a row that says so if either was not measured."""
    few = _rows("l3-1prefix-1flows", [50e6, 60e6], Outcome("ovs-dpdk", "", [1e6, 1e6]))
    many = _rows("l3-2kprefixes-500kflows", [40e6, 42e6], Outcome("ovs-dpdk", "", [1e6, 1e6]))
    (row,) = figures.flatness([*few.values(), *many.values()], whole=True)
    assert row.samples == pytest.approx([0.8, 0.7])
    assert row.met is True
    (missing,) = figures.flatness(list(few.values()), whole=True)
    assert missing.met is False
    assert list(figures.flatness(list(few.values()), whole=False)) == []


def _arrivals(name: str, sent: tuple[int, ...], strayed: int) -> dict[str, Row]:
    account = Account(Counters(5, 5, (0,) * len(sent)), Counters(105, 105, sent, strayed), 1.0)
    outcome = Outcome("headrace", "", [1e6], account=account)
    return {row.name: row for row in figures.arrivals(name, outcome, _case(name))}


def test_a_loss_at_any_sink_misses_the_goal() -> None:
    """Of a group of all ports each is to get every packet."""
    name = "group-all-4ports-100flows"
    assert _arrivals(name, (100, 100, 100, 100), 0)[f"{name} lost"].met is True
    short = _arrivals(name, (100, 100, 99, 98), 0)[f"{name} lost"]
    assert (short.value, short.met) == (3, False)
    assert short.note == "0 between source and port, 3 between port and sink"
    assert f"{name} strayed" not in _arrivals(name, (100, 100, 100, 100), 0)


def test_flooded_packets_are_told() -> None:
    """What a learning bridge sends where the receiver is not: it has not kept the address."""
    name = "normal-10kmacs"
    assert _arrivals(name, (100,), 0)[f"{name} strayed"].met is True
    flooded = _arrivals(name, (100,), 7)[f"{name} strayed"]
    assert (flooded.value, flooded.met) == (7, False)
