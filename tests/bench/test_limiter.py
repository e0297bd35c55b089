# SPDX-License-Identifier: Apache-2.0
"""Verdicts from counters: who limited a rate."""

from dataclasses import replace

import pytest

from headrace.bench.evidence import Reading, generator_activity, switch_activity, vnf_activity
from headrace.bench.node_client import Cycles, PortCounters, VnfCycles
from headrace.results.bounds import AT_LEAST, BELOW, NOT_DETERMINED, bounded, ratio_bound
from headrace.results.limiter import Activity, decide
from headrace.traffic import TrialResult

# Each with work waiting for it, or with time left.
FAST = Activity("generator", "generator", 0.0, full_share=0.9, refused_share=0.2, core=0)
SLOW = Activity("generator", "generator", 0.0, full_share=0.9, refused_share=0.0, core=0)
BUSY = Activity("switch", "headrace", 0.01, 0.02, 0.9, 0.0, core=1)
SPARE = Activity("switch", "headrace", 0.4, 0.9, 0.2, 0.0, core=1)
PASS = Activity("VNF", "vnf0", 0.5, 0.9, 0.1, 0.0, core=2)
FULL = Activity("VNF", "vnf0", 0.0, 0.01, 0.95, 0.0, core=2)


@pytest.mark.parametrize(
    ("path", "limiter"),
    [
        ([FAST, BUSY], "switch"),
        ([SLOW, SPARE], "generator"),
        ([FAST, BUSY, PASS], "switch"),
        ([FAST, replace(SPARE, refused_share=0.3, refused_by="VNF"), FULL], "VNF"),
        # The switch has no time left either: it spends it on packets that the VNF does not take.
        ([FAST, replace(BUSY, refused_share=0.3, refused_by="VNF"), FULL], "VNF"),
        ([FAST, replace(SPARE, refused_share=0.3, refused_by="generator")], "generator"),
        ([replace(SLOW, idle_share=0.5), SPARE], "unknown"),
        ([SLOW, Activity("switch", "linux-bridge")], "generator"),
        ([replace(SLOW, idle_share=0.5), Activity("switch", "linux-bridge")], "unknown"),
        # Generator and VNF take turns on one core, so that both seem saturated.
        ([SLOW, SPARE, replace(FULL, core=0)], "unknown"),
        ([FAST, BUSY, replace(FULL, core=0)], "switch"),
    ],
)
def test_the_limit_is_where_work_waits(path: list[Activity], limiter: str) -> None:
    verdict = decide(path, sent_all=False)
    assert verdict.limiter == limiter, verdict.reason
    assert verdict.lower_bound == (limiter in ("generator", "unknown"))
    assert verdict.as_dict()["evidence"][0]["role"] == "generator"


def test_a_full_queue_in_front_of_a_switch_outweighs_a_little_idle_time() -> None:
    stolen = replace(BUSY, idle_share=0.1)
    pushed = replace(FAST, refused_share=0.3)
    assert decide([pushed, stolen], sent_all=False).limiter == "switch"
    assert decide([replace(pushed, refused_share=0.05), stolen], sent_all=False).limiter == (
        "unknown"
    )
    assert decide([pushed, replace(stolen, idle_share=0.3)], sent_all=False).limiter == "unknown"


def test_vnfs_on_one_core_are_the_limit_together_if_their_queues_are_full() -> None:
    """Which of them is has no answer; their bursts and idle shares tell nothing, queues do."""
    source = replace(FAST, inexhaustible=True)
    vnfs = [replace(PASS, name=f"vnf{number}", core=0) for number in range(3)]
    full = replace(SPARE, refused_share=0.3, refused_by="VNF")
    verdict = decide([source, full, *vnfs], sent_all=False)
    assert verdict.limiter == "VNF" and "share core 0" in verdict.reason
    seldom = replace(full, refused_share=0.01)
    assert decide([source, seldom, *vnfs], sent_all=False).limiter == "unknown"
    assert decide([source, BUSY, *vnfs], sent_all=False).limiter == "switch"
    # The switch has no time left, and its source never ends: it is the limit if all of them have.
    spent = replace(BUSY, refused_share=0.05, refused_by="VNF")
    assert decide([source, spent, *vnfs], sent_all=False).limiter == "switch"
    working = [replace(one, idle_share=0.01) for one in vnfs]
    assert decide([source, spent, *working], sent_all=False).limiter == "VNF"
    beside = [replace(FAST, core=0), full, *vnfs]
    assert decide(beside, sent_all=False).limiter == "unknown"


def test_always_busy_with_single_packets_is_not_saturated() -> None:
    """What a utilisation from busy rounds calls 100 % may have room for many times the load."""
    single = replace(BUSY, idle_share=0.0, full_share=0.001)
    assert decide([replace(SLOW, idle_share=0.5), single], sent_all=False).limiter == "unknown"
    assert decide([SLOW, single], sent_all=False).limiter == "generator"


def test_a_rate_near_the_generators_ceiling_over_such_a_port_is_its_own() -> None:
    near = replace(SLOW, full_share=0.1, of_ceiling=0.95)
    assert decide([near, BUSY], sent_all=False).limiter == "generator"
    assert "95 % of its ceiling" in decide([near, SPARE], sent_all=False).reason
    far = replace(near, of_ceiling=0.5)
    assert decide([far, BUSY], sent_all=False).limiter == "switch"
    assert decide([far, SPARE], sent_all=False).limiter == "unknown"
    # Its packets wait for the switch, whatever rate that is.
    waiting = replace(near, refused_share=0.2)
    assert decide([waiting, BUSY], sent_all=False).limiter == "switch"


def test_a_load_that_came_back_is_the_generators() -> None:
    assert decide([SLOW, BUSY], sent_all=True).limiter == "generator"


def test_an_inexhaustible_source_is_never_the_limit() -> None:
    source = Activity("generator", "source", 0.0, full_share=1.0, inexhaustible=True)
    assert decide([source, BUSY], sent_all=False).limiter == "switch"
    assert decide([source, SPARE], sent_all=False).limiter == "unknown"


def test_a_stolen_core_is_told() -> None:
    verdict = decide([FAST, replace(BUSY, on_core=0.5)], sent_all=False)
    assert verdict.limiter == "switch" and "another program took its core" in verdict.reason
    verdict = decide([replace(SLOW, idle_share=0.3, on_core=0.5), SPARE], sent_all=False)
    assert verdict.limiter == "unknown" and "core of generator" in verdict.reason


def reading(busy: int, idle: int, rounds: int, full: int, dropped: int) -> Reading:
    polled = {"rounds": rounds, "busy_rounds": rounds, "bursts": rounds, "full_bursts": full}
    spent = {"busy_cycles": busy, "idle_cycles": idle, "packets": 32 * rounds}
    worker = {"core": 1, **spent, **polled}
    ports = [
        PortCounters(lsi="LSI-0", port="in0", rx_packets=9, tx_packets=90, tx_dropped=0),
        PortCounters(lsi="g", port="v0", rx_packets=9, tx_packets=10 * rounds, tx_dropped=dropped),
    ]
    return Reading(Cycles.model_validate({"tsc_hz": 1e9, "workers": [worker]}), tuple(ports))


def test_activities_are_what_grew_between_two_readings() -> None:
    before, after = reading(100, 900, 10, 1, 5), reading(1090, 910, 110, 91, 255)
    switch = switch_activity("headrace", before, after, ["in0"], 1.0, 1)
    assert switch.idle_share == pytest.approx(0.01) and switch.empty_share == 0
    assert switch.full_share == pytest.approx(0.9) and switch.refused_by == "VNF"
    assert switch.refused_share == pytest.approx(250 / 1250) and switch.saturated
    vnf = vnf_activity(
        "vnf0",
        VnfCycles(busy_cycles=0, idle_cycles=0, packets=0, polls=0, busy_polls=0, refused=0),
        VnfCycles(busy_cycles=75, idle_cycles=25, packets=40, polls=100, busy_polls=50, refused=10,
                  cpu_ns=500_000_000),
        1.0,
        0,
    )  # fmt: skip
    assert (vnf.idle_share, vnf.empty_share, vnf.refused_share) == (0.25, 0.5, 0.25)
    assert vnf.full_share is None and vnf.on_core == 0.5


def test_idle_rounds_before_and_after_the_sending_are_not_counted() -> None:
    """Readings 2 s apart around 1 s of sending in which the switch had no time left."""
    before, after = reading(0, 0, 0, 0, 0), reading(990_000_000, 1_010_000_000, 9, 9, 0)
    assert switch_activity("s", before, after, ["in0"], 1.0, 1).saturated is False
    during = switch_activity("s", before, after, ["in0"], 1.0, 1, sent_for=1.0)
    assert during.idle_share == pytest.approx(0.01) and during.saturated
    cycles = {"packets": 1, "polls": 1, "busy_polls": 1, "refused": 0}
    vnf = vnf_activity(
        "vnf0",
        VnfCycles(busy_cycles=0, idle_cycles=0, **cycles),
        VnfCycles(busy_cycles=480_000_000, idle_cycles=1_500_000_000, **cycles),
        1.0,
        0,
        sent_for=0.5,
        tsc_hz=1e9,
    )
    assert vnf.idle_share == pytest.approx(0.04)


def test_a_generator_without_counters_has_none() -> None:
    result = TrialResult.model_validate(
        {"intended": 9, "sent": 9, "unsent": 0, "received": 9, "lost": 0, "duplicated": 0,
         "reordered": 0, "misdelivered": 0, "tx_pps": 9, "rx_pps": 9, "loss_ratio": 0,
         "latency_ns": {"count": 0}, "duration_s": 1, "generator": {"busy_share": 0.25}}
    )  # fmt: skip
    activity = generator_activity(result, 0)
    assert activity.idle_share == 0.75 and activity.refused_share is None


def test_bounds_of_ratios() -> None:
    assert bounded("1.5", ratio_bound(AT_LEAST, "")) == "≥ 1.5"
    assert bounded("1.5", ratio_bound("", AT_LEAST)) == "≤ 1.5"
    assert bounded("1.5", ratio_bound("", "")) == "1.5"
    assert bounded("1.5", ratio_bound(AT_LEAST, AT_LEAST)) == f"{NOT_DETERMINED} (1.5)"
    assert ratio_bound(BELOW, "") == "≤" and ratio_bound("", BELOW) == "≥"
    assert ratio_bound(AT_LEAST, BELOW) == "≥" and ratio_bound(BELOW, BELOW) == NOT_DETERMINED
