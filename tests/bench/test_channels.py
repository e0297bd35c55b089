# SPDX-License-Identifier: Apache-2.0
"""`headrace bench channels`: its plan, its goals, and real packets over real channels."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.bench.channels import figures, suite
from headrace.bench.channels.kinds import CASES, KINDS, Case, Kind, cases_of, chosen
from headrace.bench.channels.program import Channel, ChannelError, Window

HEADRACE = (str(Path(sys.executable).parent / "headrace"), "bench", "channels")
POINTERS, TOUCHED = Case(64, touch=False), Case(64, touch=True)


def kind_named(name: str) -> Kind:
    return next(kind for kind in KINDS if kind.name == name)


def window(**counts: int) -> Window:
    return Window(**{"packets": 0, "sent": 0, "foreign": 0, "corrupt": 0, **counts}, seconds=0.5)


def test_every_kind_of_the_comparison_is_there_once() -> None:
    names = [kind.name for kind in KINDS]
    assert len(names) == len(set(names))
    assert set(names) == {
        *("veth", "tap", "vhost-split", "vhost-packed", "memif", "memif-zc"),
        *("switch-memif", "switch-shm", "direct", "ring", "ring-one-way"),
    }
    assert len(CASES) == len(set(CASES)) == 6


def test_kinds_are_chosen_by_words() -> None:
    assert [kind.name for kind in chosen("memif-zc, tap")] == ["tap", "memif-zc"]
    assert chosen("") == list(KINDS)
    with pytest.raises(ValueError, match="vhost-packed"):
        chosen("nonsense")


def test_ends_share_a_core_only_where_the_switch_needs_the_other() -> None:
    for kind in KINDS:
        words = suite.arguments(kind, Path("/run/x"), Path("/run/g.shm"))
        shared = suite.cores(kind)[0] == suite.cores(kind)[1]
        assert shared == ("--yield" in words)
        assert shared == (kind.switch_ports != "" and not kind.links)
        assert not any("{" in word for word in words)


def test_untouched_packets_that_circulate_count_both_ways() -> None:
    there = window(packets=1_000_000, sent=900_000)
    assert figures.mpps(kind_named("direct"), POINTERS, there) == pytest.approx(3.8)
    assert figures.mpps(kind_named("direct"), TOUCHED, there) == pytest.approx(2.0)
    assert figures.mpps(kind_named("memif"), POINTERS, there) == pytest.approx(2.0)


def test_a_window_without_packets_or_with_damaged_ones_is_no_figure() -> None:
    direct = kind_named("direct")
    suite.check(direct, TOUCHED, window(packets=10, sent=10))
    with pytest.raises(ChannelError, match="no packets arrived"):
        suite.check(direct, TOUCHED, window(sent=3))
    with pytest.raises(ChannelError, match="1 packets arrived corrupted"):
        suite.check(direct, TOUCHED, window(packets=10, corrupt=1))
    with pytest.raises(ChannelError, match="another length"):
        suite.check(direct, TOUCHED, window(packets=10, foreign=6))


rates = st.lists(st.floats(min_value=0.01, max_value=1000.0), min_size=3, max_size=3)


@given(direct=rates, ring=rates, memif=rates, vhost=rates)
def test_direct_is_held_against_the_ring_and_the_best_of_the_others(
    direct: list[float], ring: list[float], memif: list[float], vhost: list[float]
) -> None:
    taken = {
        ("direct", POINTERS): direct,
        ("ring", POINTERS): ring,
        ("direct", TOUCHED): direct,
        ("memif", TOUCHED): memif,
        ("vhost-packed", TOUCHED): vhost,
    }
    found = {row.name: row for row in figures.ratios(taken, {}, whole=False)}
    assert set(found) == {"direct/best of memif and vhost-user 64B touched"}
    turns = {row.name: row for row in figures.in_turn(taken, {}, whole=False)}
    assert set(turns) == {
        "direct/ring 64B pointers",
        "direct 64B pointers in turn",
        "ring 64B pointers in turn",
    }
    assert turns["direct 64B pointers in turn"].goal == figures.PAPER_MPPS
    of_ring = turns["direct/ring 64B pointers"]
    assert of_ring.samples == [a / b for a, b in zip(direct, ring, strict=True)]
    assert of_ring.met == (sorted(of_ring.samples)[1] >= figures.OF_BARE_RING)
    to_best = found["direct/best of memif and vhost-user 64B touched"]
    best = memif if sorted(memif)[1] > sorted(vhost)[1] else vhost
    assert to_best.samples == [a / b for a, b in zip(direct, best, strict=True)]
    assert to_best.met == (sorted(to_best.samples)[1] >= figures.TO_BEST)


@given(direct=rates)
def test_the_papers_figure_is_a_goal_of_pointers_only(direct: list[float]) -> None:
    kind = kind_named("direct")
    taken = {("direct", case): direct for case in cases_of(kind)}
    for row in figures.rates([kind], taken, {}):
        if row.name.endswith("pointers"):
            assert row.goal == figures.PAPER_MPPS
            assert row.met == (sorted(direct)[1] >= figures.PAPER_MPPS)
        else:
            assert row.goal is None and row.met is None


def test_what_failed_is_skipped_with_its_reason() -> None:
    failed = {"switch-memif": "no memif here"}
    rows = list(figures.rates([kind_named("switch-memif")], {}, failed))
    rows += figures.in_turn({}, failed, whole=True)
    rows += figures.ratios({}, failed, whole=True)
    assert all(row.value is None for row in rows)
    reasons = {row.name: row.skipped for row in rows}
    assert reasons["switch-memif 64B pointers"] == "no memif here"
    assert reasons["switch-shm/switch-memif 64B touched"] == "switch-memif: no memif here"
    assert len(reasons) == 6 + 3 + 3 + 6


needs_cores = pytest.mark.skipif(
    os.geteuid() != 0 or (os.cpu_count() or 1) < 2, reason="needs root and two cores"
)


@needs_cores
def test_the_command_counts_real_packets() -> None:
    done = subprocess.run(
        [
            *HEADRACE,
            "--json",
            *("--only", "veth,vhost-packed,memif,switch-shm,direct,ring"),
            *("--repeats", "1", "--seconds", "0.05"),
        ],
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    rows = {row["name"]: row for row in document["rows"]}
    for kind in chosen("veth,vhost-packed,memif,switch-shm,direct,ring"):
        for case in cases_of(kind):
            row = rows[f"{kind.name} {case.name}"]
            assert row["skipped"] is None, row
            assert row["value"] > 0
    assert rows["direct/ring 64B pointers"]["value"] > 0
    assert document["manifest"]["cores"]["switch-shm"] == {"producer": 0, "consumer": 0}


@needs_cores
def test_a_channel_that_cannot_be_says_why(tmp_path: Path) -> None:
    async def attempt(*arguments: str) -> None:
        program = suite.find_channel_program()
        async with Channel(program, arguments, tmp_path / "log") as channel:
            await channel.open()

    with pytest.raises(ChannelError, match="--buffers 5000: 1 to 1024"):
        asyncio.run(attempt("shm", "--buffers", "5000"))
    with pytest.raises(ChannelError, match="No such file"):
        asyncio.run(attempt("shm", "--socket", str(tmp_path / "none")))
    with pytest.raises(ChannelError, match="cannot make the device 'net_nonsense'"):
        asyncio.run(attempt("ethdev", "--producer", "net_nonsense", "--consumer", "net_null0"))


def test_bad_options_are_clear_errors() -> None:
    for words, told in (
        (["--only", "pigeons"], "no kind of channel contains 'pigeons'; known: veth"),
        (["--repeats", "0"], "--repeats"),
        (["--seconds", "0"], "--seconds"),
    ):
        done = subprocess.run(
            [*HEADRACE, *words], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode != 0
        assert told in done.stderr
