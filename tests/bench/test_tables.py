# SPDX-License-Identifier: Apache-2.0
"""The tables at the end of a campaign: whole at 80 columns, loss beside latency, ▲ for better."""

import io
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from headrace.bench.compare import compare
from headrace.bench.compare_table import table_of
from headrace.bench.rows import row, skipped
from headrace.bench.tables import columns_of, print_tables
from headrace.cli import app
from headrace.results import Case, Relation, Sample, Skip
from headrace.results.direction import judged
from headrace.results.store import Store
from headrace.results.summary import json_rows


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tables") / "r.sqlite"
    for seed in ("1", "2"):
        outcome = CliRunner().invoke(
            app, ["bench", "run", "--simulate", "--rounds", "4", "--seed", seed,
                  "--results", str(path)],
        )  # fmt: skip
        assert outcome.exit_code == 0, outcome.output
    with Store(path) as store:
        reason = "the node did not come up: " + "a long reason " * 10
        store.add_skip(1, Skip("port-to-port", "64B-1000f-p2p", "headrace/vhost-user", reason))
    return path


def printed(results: Path, width: int) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    with Store(results) as store:
        print_tables(console, store, 1)
        console.print(table_of(compare(store, 1, 2), 1, 2))
    return stream.getvalue()


@pytest.mark.parametrize("width", [80, 100, 132])
def test_no_line_is_cut_and_none_is_longer_than_the_terminal(results: Path, width: int) -> None:
    text = printed(results, width)
    assert max(len(line) for line in text.splitlines()) <= width
    assert "…" not in text
    for word in ("port-to-port", "chain-cost", "flow-sweep", "headrace/vhost-user"[:8], "skipped"):
        assert word in text


def test_80_columns_hold_every_value_of_the_wide_form(results: Path) -> None:
    values = [set(re.findall(r"\d+\.\d+", printed(results, width))) for width in (80, 132)]
    assert values[0] == values[1]


def test_loss_stands_beside_latency_and_cost(results: Path) -> None:
    text = printed(results, 132)
    assert "lost at 50 % PDR, %" in text and "p99 at 50 % PDR, µs" in text
    assert "lost at 20 kpps, %" in text and "busy at 20 kpps, %" in text


def test_the_cycles_that_answer_a_question_stand_in_the_table(results: Path) -> None:
    """What a chain costs is told in cycles at the highest load, and was not to be seen there."""
    text = printed(results, 132)
    assert "cycles at 200 kpps" in text and "cycles at 20 kpps" not in text


def test_marks_mean_better_and_worse(tmp_path: Path) -> None:
    """Half the latency is better, half the rate is worse."""
    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        for switch, factor in (("headrace", 0.5), ("ovs-dpdk", 1.0)):
            case = Case("s", "p2p", 0, "none", switch, "memif", "", "", "", "64", 1)
            samples = [
                Sample(metric, point, at, factor * value * (1 + 0.01 * (at % 2)))
                for at in range(4)
                for metric, point, value in (
                    ("mrr", "overload", 1e6),
                    ("latency_p99", "50% pdr", 9e3),
                )
            ]
            store.add_samples(store.case_id(number, case), samples)
        stream = io.StringIO()
        print_tables(Console(file=stream, width=132), store, number)
    lines = {line.split("│")[2].strip(): line for line in stream.getvalue().splitlines()
             if line.count("│") > 3}  # fmt: skip
    assert "▼" in lines["MRR, Mpps"] and "▲" in lines["p99 at 50 % PDR, µs"]
    assert judged("cycles_per_packet", "lower") == "better" == judged("pdr-quick", "higher")
    assert judged("outage_time", "higher") == "worse"


@pytest.mark.parametrize(
    ("ours", "theirs", "said", "met"),
    [
        ("=", "=", "▲", True), (">=", "=", "≥ 2.00", True), ("=", "<", "≥ 2.00", True),
        ("<", "=", "≤ 2.00", None), ("=", ">=", "≤ 2.00", None),
        (">=", ">=", "not determined (2.00)", None),
    ],
)  # fmt: skip
def test_a_search_that_ended_at_a_bound_makes_the_ratio_one(
    tmp_path: Path, ours: Relation, theirs: Relation, said: str, met: bool | None
) -> None:
    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        for switch, relation, value in (("headrace", ours, 2e6), ("ovs-dpdk", theirs, 1e6)):
            case = Case("s", "p2p", 0, "none", switch, "memif", "", "", "", "64", 1)
            samples = [Sample("ndr", "", at, value, relation=relation) for at in range(4)]
            store.add_samples(store.case_id(number, case), samples)
        stream = io.StringIO()
        print_tables(Console(file=stream, width=132), store, number)
        (row,) = [one for one in json_rows(store, number)["rows"] if one["unit"] == "ratio"]
    line = next(line for line in stream.getvalue().splitlines() if "NDR, Mpps" in line)
    assert said in line.rsplit("│", 2)[1] and row["met"] is met


@pytest.mark.parametrize("width", [80, 132])
def test_a_rows_ratio_is_that_of_the_values_beside_it(tmp_path: Path, width: int) -> None:
    """Rounds of one switch alone, in a slow phase, were in its value and not in the ratio."""
    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        for switch, factor, rounds in (("headrace", 2.0, 30), ("ovs-dpdk", 1.0, 4)):
            case = Case("s", "p2p", 0, "none", switch, "memif", "", "", "", "64", 1)
            samples = [
                Sample("mrr", "overload", at, factor * (1e6 if at < 4 else 3e5), turn=turn)
                for at in range(rounds)
                for turn in range(2)
            ]
            store.add_samples(store.case_id(number, case), samples)
        stream = io.StringIO()
        print_tables(Console(file=stream, width=width), store, number)
        (row,) = [one for one in json_rows(store, number)["rows"] if one["unit"] == "ratio"]
    text = stream.getvalue()
    assert "2.00 [2.00..2.00]" in text and "1.00 [1.00..1.00]" in text and "0.600" not in text
    assert row["value"] == pytest.approx(row["over"]["value"] / row["under"]["value"])
    assert row["over"]["value"] == pytest.approx(2e6)


def test_each_kind_of_vnf_on_a_switch_has_its_column() -> None:
    words = ("s", "chain", 1, "gather", "headrace", "in-process", "vhost-user")
    cases = [
        Case(*words, function, engine, "64", 1, variant=variant)  # type: ignore[arg-type]
        for function, engine, variant in (
            ("pass", "process", ""),
            ("pass", "container", ""),
            ("nat", "process", ""),
            ("pass", "process", "workers=2"),
        )
    ]
    assert len(set(columns_of(cases).values())) == len(cases)


def test_cases_stand_in_the_order_of_their_sizes_whatever_the_order_of_measuring(
    tmp_path: Path,
) -> None:
    sizes = ["1518", "imix-csit", "64", "512"]
    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        for vnfs in (2, 0, 1):
            for size in sizes:
                case = Case("s", "chain" if vnfs else "p2p", vnfs, "none", "headrace", "memif",
                            "memif" if vnfs else "", "", "", size, 1)  # fmt: skip
                store.add_samples(store.case_id(number, case), [Sample("mrr", "", 0, 1e6)])
        stream = io.StringIO()
        print_tables(Console(file=stream, width=132), store, number)
    found = re.findall(r"(p2p|one VNF|chain of 2), (64B|512B|1518B|imix-csit)", stream.getvalue())
    ordered = ["64B", "512B", "1518B", "imix-csit"]
    graphs = ("p2p", "one VNF", "chain of 2")
    assert found == [(graph, size) for graph in graphs for size in ordered]


def test_what_commands_measured_is_printed_too(tmp_path: Path) -> None:
    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        store.add_command_row(
            number, "unify/channels", row("ring, 64 B", [300.0, 310.0, 320.0], "Mpps").model_dump()
        )
        store.add_command_row(
            number, "unify/channels", skipped("guest", "Mpps", "no KVM here").model_dump()
        )
        statement = {"where": "Fig. 8", "statement": "[a] holds", "computed": "n = 4..6",
                     "outcome": "holds", "states": {}}  # fmt: skip
        store.add_command_row(number, "luizelli/statements", statement)
        stream = io.StringIO()
        print_tables(Console(file=stream, width=100), store, number)
    text = stream.getvalue()
    for word in ("unify/channels", "310 Mpps", "300 .. 320", "no KVM here",
                 "luizelli/statements", "[a] holds", "n = 4..6"):  # fmt: skip
        assert word in text
