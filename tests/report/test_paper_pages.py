# SPDX-License-Identifier: Apache-2.0
"""Pages of papers: units, readings that the data support, and whole pages of a campaign."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.bench import manifest
from headrace.cli import app
from headrace.report.paper_pages.agreement import readings
from headrace.report.paper_pages.pages import newest
from headrace.report.paper_pages.series import Point, Series, converted
from headrace.results.bounds import Bound
from headrace.results.experiment import Figure
from headrace.results.papers import paper
from headrace.results.store import Store


@pytest.mark.parametrize(
    ("value", "unit", "wanted", "size", "expected"),
    [
        (2e6, "pps", "Mpps", None, 2.0),
        (5223, "kpps/core", "Mpps", None, 5.223),
        (1e6, "pps", "Gbit/s", 1500.0, 12.0),
        (1e6, "pps", "Gbit/s", None, None),
        (12500, "ns", "us", None, 12.5),
        (0.02, "", "% lost", None, 2.0),
        (3.0, "W", "Mpps", None, None),
    ],
)
def test_units(
    value: float, unit: str, wanted: str, size: float | None, expected: float | None
) -> None:
    found = converted(value, unit, wanted, size)
    assert found == (None if expected is None else pytest.approx(expected))


FIGURE = Figure(figure="Table 5", title="t", x="flows", y="kpps", alike={"ovs-dpdk": "ovs-dpdk"})
THEIRS = Series("ovs-dpdk", True, (Point(1, 5567, 5567, 5567), Point(500000, 311, 311, 311)))


def ours(first: tuple[float, float], last: tuple[float, float], samples: int = 5) -> Series:
    points = tuple(
        Point(x, (low + high) / 2, low, high, "", samples)
        for x, (low, high) in ((1, first), (100000, last))
    )
    return Series("ovs-dpdk/in-process", False, points)


@pytest.mark.parametrize(
    ("mine", "verdict", "words"),
    [
        (ours((900, 1000), (300, 400)), "agrees", "both fall"),
        (ours((900, 1000), (950, 1050)), "disagrees", "theirs falls, ours shows no change"),
        (ours((900, 1000), (1200, 1300)), "disagrees", "theirs falls, ours rises"),
        (ours((100, 1000), (50, 1050)), "open", "our ranges allow either"),
        (ours((900, 1000), (300, 400), samples=1), "open", "one sample"),
    ],
)
def test_a_trend_is_read_as_far_as_our_ranges_support_it(
    mine: Series, verdict: str, words: str
) -> None:
    (found,) = readings(FIGURE, [THEIRS, mine])
    assert found.verdict == verdict and words in found.text
    assert "times 0.0559" in found.text and "1 to 100,000" in found.text


@pytest.mark.parametrize(
    ("their", "verdict", "words"),
    [
        # Within our range their value changes as ours does; what comes after is not compared.
        ((1, 2, 3, 10), "agrees", "From 1 to 3 "),
        ((1, 10), "open", "the ranges are not the same"),
    ],
)
def test_a_trend_is_compared_over_what_both_have(
    their: tuple[int, ...], verdict: str, words: str
) -> None:
    figure = Figure(figure="Fig. 9", title="t", x="vnfs", y="Mpps", alike={"ovs-dpdk": "ovs-dpdk"})
    theirs = Series("ovs-dpdk", True, tuple(Point(x, 10 * x, 10 * x, 10 * x) for x in their))
    mine = Series(
        "ovs-dpdk/vhost-user", False, tuple(Point(x, x, x - 0.1, x + 0.1, "", 5) for x in (1, 2, 3))
    )
    (found,) = readings(figure, [theirs, mine])
    assert found.verdict == verdict and words in found.text


@pytest.mark.parametrize(
    ("bounds", "verdict"),
    [
        (("≥", ""), "open"),  # the first may be any more: a fall, and by how much?
        (("", "≥"), "open"),
        (("", "<"), "agrees"),  # what is below 400 has fallen from 900
        (("not determined", ""), "open"),
    ],
)
def test_a_rate_that_is_a_bound_proves_only_what_it_bounds(
    bounds: tuple[Bound, Bound], verdict: str
) -> None:
    flat = ours((900, 1000), (950, 1050) if bounds[1] != "<" else (300, 400))
    points = tuple(replace(p, bound=b) for p, b in zip(flat.points, bounds, strict=True))
    (found,) = readings(FIGURE, [THEIRS, replace(flat, points=points)])
    assert found.verdict == verdict
    if verdict == "open":
        assert "ours are bounds" in found.text


def test_orders_are_compared_at_a_common_place() -> None:
    figure = Figure(
        figure="Table 8", title="t", x="size", y="kpps",
        alike={"ivshmem": "shm", "vhost-user": "vhost"},
    )  # fmt: skip
    their = [
        Series("ivshmem", True, (Point(64, 5223, 5223, 5223),)),
        Series("vhost-user", True, (Point(64, 2700, 2700, 2700),)),
    ]

    def mine(name: str, low: float, high: float) -> Series:
        return Series(name, False, (Point(64, (low + high) / 2, low, high, "", 4),))

    (same,) = readings(figure, [*their, mine("shm", 8, 9), mine("vhost", 3, 4)])
    assert same.verdict == "agrees" and "1.93 in the paper" in same.text
    (other,) = readings(figure, [*their, mine("shm", 1, 2), mine("vhost", 3, 4)])
    assert other.verdict == "disagrees"
    (open_,) = readings(figure, [*their, mine("shm", 1, 5), mine("vhost", 3, 4)])
    assert open_.verdict == "open"
    limited = Series("shm", False, (Point(64, 1.5, 1, 2, "≥", 4),))
    (limited_,) = readings(figure, [*their, limited, mine("vhost", 3, 4)])
    assert limited_.verdict == "open"


def test_a_page_for_each_paper_and_an_index(tmp_path: Path) -> None:
    results, report = tmp_path / "r.sqlite", tmp_path / "report"
    runner = CliRunner()
    outcome = runner.invoke(
        app,
        ["bench", "run", "hong", "luizelli/cost", "unify/channels", "--simulate", "--results",
         str(results)],
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    with Store(results) as store:
        for kind, value in (("direct 64B", 616.0), ("vhost-split 64B", 4.0)):
            row = {"name": kind, "value": value, "unit": "Mpps", "samples": [value, 1.1 * value]}
            store.add_command_row(1, "unify/channels", row)
    outcome = runner.invoke(
        app, ["report", "--paper", "all", "--results", str(results), "--to", str(report)]
    )
    assert outcome.exit_code == 0, outcome.output
    pages = {path.stem: path.read_text() for path in (report / "papers").glob("*.html")}
    assert set(pages) == {"hong", "luizelli", "unify", "index"}
    hong = pages["hong"]
    assert "Simulated." in hong and "<svg" in hong and "sriov_totalvfs" in hong
    assert "paper: ovs-dpdk" in hong and "headrace/in-process+shm" in hong
    assert (
        "Table I beside ours" in pages["luizelli"] and "Fig. 7, from Table I" in pages["luizelli"]
    )
    assert "direct 64B" in pages["unify"] and "devices are simulated" in pages["unify"]
    assert 'href="hong.html#compositions"' in pages["index"]
    for page in pages.values():
        assert "src=" not in page and "@import" not in page and "<link" not in page
    outcome = runner.invoke(
        app, ["report", "--paper", "icpe18", "--results", str(results), "--to", str(report)]
    )
    assert outcome.exit_code == 1
    outcome = runner.invoke(
        app, ["report", "--paper", "nobody", "--results", str(results), "--to", str(report)]
    )
    assert outcome.exit_code == 1


def test_an_emulated_machine_stands_beside_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, report = tmp_path / "r.sqlite", tmp_path / "report"
    runner = CliRunner()
    run = ["bench", "run", "luizelli/cost", "hong/bare-metal", "--simulate", "--results"]
    write = ["report", "--paper", "all", "--results", str(results), "--to", str(report)]
    translated = "model name\t: QEMU TCG CPU version 2.5+\nflags\t: hypervisor\n"
    with monkeypatch.context() as patch:
        read = manifest._file
        patch.setattr(
            manifest, "_file", lambda path: translated if path == "/proc/cpuinfo" else read(path)
        )
        outcome = runner.invoke(app, [*run, str(results)])
    assert outcome.exit_code == 0 and "note: an emulated machine" in outcome.output
    assert runner.invoke(app, write).exit_code == 0
    pages = {path.stem: path.read_text() for path in (report / "papers").glob("*.html")}
    assert "Emulated." in pages["hong"] and "paper: ovs-dpdk" not in pages["hong"]
    assert "Emulated." in pages["luizelli"] and "Table I beside ours" not in pages["luizelli"]
    whole = runner.invoke(app, ["report", "--results", str(results), "--to", str(report)])
    assert whole.exit_code == 0 and "Emulated." in (report / "index.html").read_text()

    assert runner.invoke(app, [*run, str(results)]).exit_code == 0
    assert runner.invoke(app, [*run, str(results)]).exit_code == 0
    with Store(results) as store:
        assert newest(store) == dict.fromkeys(("luizelli/cost", "hong/bare-metal"), 3)
        assert newest(store, 1) == dict.fromkeys(("luizelli/cost", "hong/bare-metal"), 1)
        emulated = store.campaign(2).manifest
        emulated["machine"]["emulated"] = True
        store.set_manifest(3, emulated)
        assert set(newest(store).values()) == {2}


def test_what_commands_measured_is_among_the_rows_of_json(tmp_path: Path) -> None:
    from headrace.results.summary import json_rows

    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({"experiments": []})
        store.add_command_row(number, "unify/tcp", {"name": "a", "value": 1.0, "unit": "x"})
        rows = json_rows(store, number)["rows"]
    assert json.dumps(rows) and rows[0]["name"] == "unify/tcp: a"
    assert paper("luizelli-cost") is paper("luizelli")
