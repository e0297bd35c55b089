# SPDX-License-Identifier: Apache-2.0
"""The report of a campaign that is built here, and of one that holds nothing."""

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from headrace.bench.scenario import load_all
from headrace.cli import app
from headrace.report import cost_figures, figures, style
from headrace.report.answers import answers, faster
from headrace.report.findings import findings
from headrace.report.headline import compared
from headrace.report.html import PARTS, render, write
from headrace.report.view import View, read
from headrace.results import Skip
from headrace.results.store import Store, StoreError

runner = CliRunner()
VOID = {"meta", "br", "img", "link", "input", "hr"}


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "results.sqlite"
    outcome = runner.invoke(
        app, ["bench", "run", "--simulate", "--rounds", "3", "--results", str(path)]
    )
    assert outcome.exit_code == 0, outcome.output
    with Store(path) as store:
        store.add_skip(1, Skip("port-to-port", "64B", "vpp/memif", "no <VPP> & no reason"))
    return path


@pytest.fixture
def view(results: Path) -> View:
    with Store(results) as store:
        return read(store)


class Checker(HTMLParser):
    """Fails on tags that do not match; collects what would be fetched from elsewhere."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []
        self.ids: set[str] = set()
        self.targets: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            if name == "src" or (name == "href" and tag == "link"):
                self.fetched.append(str(value))
            if name == "id":
                self.ids.add(str(value))
            if name == "href" and tag == "a":
                self.targets.add(str(value).removeprefix("#"))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open.pop() == tag, tag


def test_the_page_is_whole_and_fetches_nothing(view: View) -> None:
    page = render(view)
    checker = Checker()
    checker.feed(page)
    assert checker.open == [] and checker.fetched == []
    assert checker.targets <= checker.ids
    assert "url(http" not in page and "<script" not in page
    for part in PARTS:
        assert part.title in page
    assert "no &lt;VPP&gt; &amp; no reason" in page
    assert "Simulated." in page and "Oversubscribed." in page
    assert "Luizelli: ovs-dpdk" in page and "0.478" in page
    for case in {row.case.name for row in view.rows}:
        assert case in page


def test_every_figure_is_drawn_and_is_well_formed(view: View) -> None:
    for part in PARTS:
        drawn = part.draw(view)
        assert drawn is not None, part.title
        root = ElementTree.fromstring(drawn)
        assert root.get("viewBox") and root.get("width") is None
        assert len(drawn) < 400_000, part.title
    drawn = figures.flow_sweep(view)
    assert drawn is not None and "D5.6: erfs" in drawn
    placed = cost_figures.placement_cost(view)
    assert placed is not None and "Luizelli: ovs-kernel" in placed


@pytest.mark.parametrize(("low", "high"), [(29, 51), (31, 33), (0.3, 120), (1, 9)])
def test_a_logarithmic_axis_has_few_labels(low: float, high: float) -> None:
    with style.figure(3, 2) as (_, axes):
        axes.plot([low, high], [1, 2])
        axes.set_xscale("log")
        style.plain_log(axes.xaxis)
        shown = [tick for tick in axes.get_xticks() if low <= tick <= high]
        assert 2 <= len(shown) <= 6


def test_the_same_campaign_gives_the_same_figures(view: View) -> None:
    assert figures.throughput_by_size(view) == figures.throughput_by_size(view)


def test_findings_say_what_the_rows_say(view: View) -> None:
    said = " ".join(findings(view))
    match = re.search(r"ports, Headrace carries (\d\.\d\d) times", said)
    assert match is not None
    ratio = next(
        entry.ratio.value for entry in view.ratios
        if entry.metric == "pdr-quick" and entry.ours.size == "64" and entry.ours.shape == "p2p"
    )  # fmt: skip
    assert float(match[1]) == pytest.approx(ratio, abs=0.006)
    assert "1 rows could not" in said


def test_tables_beside_the_papers_hold_published_numbers(view: View) -> None:
    page = render(view)
    for number in ("16.0 Mpps a core", "5.22 Mpps", "10.0 Gbit/s"):
        assert number in page


def test_an_empty_campaign_still_has_a_report(tmp_path: Path) -> None:
    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({})
        store.add_skip(number, Skip("port-to-port", "all", "headrace", "no generator"))
        store.finish(number, "complete")
        page = write(store, tmp_path / "report").read_text()
        with pytest.raises(StoreError, match="no campaign 5"):
            write(store, tmp_path / "report", 5)
    assert "Nothing was measured" in page and "no generator" in page
    assert "No cost function" in page


def test_the_tour_on_simulated_devices(tmp_path: Path) -> None:
    outcome = runner.invoke(
        app,
        ["run", "--simulate", "--quick", "--results", str(tmp_path / "r.sqlite"),
         "--report", str(tmp_path / "report")],
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    assert "nothing is left running" in outcome.output
    assert (tmp_path / "report" / "index.html").exists()
    with Store(tmp_path / "r.sqlite") as store:
        assert len(store.fits(1)) == 8
        assert {c.scenario for c in store.cases(1).values()} == {s.name for s in load_all()}


def test_report_without_results_is_words(tmp_path: Path) -> None:
    outcome = runner.invoke(app, ["report", "--results", str(tmp_path / "none.sqlite")])
    assert outcome.exit_code == 1 and "Traceback" not in outcome.output


def test_the_rulers_own_error_is_said(view: View) -> None:
    assert "The ruler." not in render(view)
    latency = {"count": 9, "p50": 480.0, "p99": 2100.0}
    view.campaign.manifest["generator"] = {
        "via": "net_ring", "ceilings": [{"size": 64, "ceiling_pps": 14.4e6, "loss_ratio": 0}],
        "latency_floor_ns": latency, "timing_error_ns": latency, "at_pps": 1e6,
    }  # fmt: skip
    page = render(view)
    assert "14.4 Mpps of 64 B" in page and "480 ns" in page and "2.10 µs" in page
    empty = {"count": 0, "p50": None, "p99": None}
    view.campaign.manifest["generator"]["latency_floor_ns"] = empty
    assert "median latency" not in render(view)


def test_disturbed_trials_are_said(view: View) -> None:
    assert "Disturbed.</strong>" not in render(view)
    for case, trials in view.trials.items():
        view.trials[case] = [replace(t, waited_cycles=round(t.duration_s * 1e9)) for t in trials]
    assert "In 100 % of the trials" in render(view)


def test_the_first_sentences_answer_the_three_questions(view: View) -> None:
    """The simulated laws: 130 and 260 cycles a traversal, flows cost nothing."""
    fast, chain, flows = findings(view)[:3]
    lead = re.match(r"Which is faster\? Headrace: port to port Headrace carries ([\d.]+) ", fast)
    assert lead is not None and 1.9 <= float(lead[1]) <= 2.1
    assert "through one VNF Headrace carries" in fast and "source and sink in the switch" in fast
    assert fast.count("95 % interval") == 2 and fast.count("the switch was the limit") == 2
    costs = re.findall(r"(Headrace|OVS-DPDK) ([\d.]+) cycles of a packet, 95 % interval", chain)
    assert [name for name, _ in costs] == ["Headrace", "OVS-DPDK"]
    # 8 times as many packets as at the capacity make them 8^-0.1 times as cheap.
    assert float(costs[1][1]) > 1.7 * float(costs[0][1])
    assert "64-byte frames at 200 kpps in bursts of 32" in chain and "% was lost at most" in chain
    times = re.search(r"With 3 VNFs Headrace takes ([\d.]+) times OVS-DPDK's cycles", chain)
    assert times is not None and 0.5 <= float(times[1]) <= 0.6
    kept = [float(share) for share in re.findall(r"with 100,000 (\d+) % \(95", flows)]
    assert len(kept) == 2 and all(85 <= share <= 115 for share in kept)
    assert flows.count("the switch was the limit") == 2


def test_a_question_without_a_result_says_so_with_the_reason(view: View) -> None:
    """What was asked is in the manifest, so a switch that did not start is not left out."""
    rows = [row for row in view.rows if row.case.switch == "headrace"]
    lost = [
        Skip(row.case.scenario, row.case.name, row.case.subject, "no hugepages")
        for row in view.rows
        if row.case.switch == "ovs-dpdk"
    ]
    fast, chain, flows = answers(replace(view, rows=rows, skips=lost))
    assert "64B-1000f-p2p@ovs-dpdk/in-process has no result: no hugepages" in fast
    assert fast.startswith("Which is faster? No result")
    assert "Headrace 1" in chain and "has no result: no hugepages" in chain
    assert "Headrace keeps" in flows and "has no result: no hugepages" in flows
    none = answers(replace(view, rows=[], skips=[]))
    assert len(none) == 3 and all("has no result: not measured" in one for one in none)


def test_a_bound_and_a_wide_interval_are_called_so(view: View) -> None:
    (both,) = [
        one for one in compared(view)
        if one.contrast.by == "switch" and one.contrast.over.scenario == "switch-limit"
        and one.contrast.over.shape == "p2p"
    ]  # fmt: skip
    assert both.over is not None and both.pairs is not None
    pairs, ratio_was = both.pairs, both.pairs.ratio
    bounded = replace(both, over=replace(both.over, generator_limited=True))
    said = faster(view, [bounded])
    assert said is not None
    ratio, rate = re.search(r"carries ≥ ([\d.]+) ", said), re.search(r"≥ ([\d.]+) (and|Mpps)", said)
    assert ratio is not None and 1.9 <= float(ratio[1]) <= 2.1
    assert rate is not None and 14 <= float(rate[1]) <= 16
    wide = replace(both, pairs=replace(pairs, ratio=replace(ratio_was, low=0.7, high=1.4)))
    said = faster(view, [wide])
    assert said is not None and said.startswith("Which is faster? Not determined")
    assert "wider than the ±10 % wanted" in said
    same = replace(both, pairs=replace(pairs, ratio=replace(ratio_was, low=0.97, high=1.02)))
    assert (faster(view, [same]) or "").startswith("Which is faster? Neither by more than 5 %")


def test_a_campaign_that_asked_nothing_is_answered_by_its_rows(view: View) -> None:
    asked = answers(view)
    view.campaign.manifest.pop("headline")
    fast, chain, flows = answers(view)
    assert [one.split("?")[0] for one in asked] == [
        one.split("?")[0] for one in (fast, chain, flows)
    ]
    assert "vhost-user ports" not in fast


def test_labels_stay_readable_on_a_narrow_page(view: View) -> None:
    """Figures keep a width at which their smallest label has 9 pixels, and scroll below it."""
    page = render(view)
    rule = re.search(r"figure svg \{[^}]*min-width:([\d.]+)rem", page)
    assert rule is not None and re.search(r"figure \{[^}]*overflow-x:auto", page)
    width = 16 * float(rule[1])
    for part in PARTS:
        drawn = part.draw(view)
        assert drawn is not None
        box = re.search(r'viewBox="0 0 ([\d.]+)', drawn)
        sizes = [float(size) for size in re.findall(r"font(?:-size)?: (?:\w+ )*?([\d.]+)px", drawn)]
        assert box is not None and sizes, part.title
        assert min(sizes) * width / float(box[1]) >= 9, part.title


def test_figures_are_files_of_their_own_on_request(results: Path, tmp_path: Path) -> None:
    outcome = runner.invoke(
        app, ["report", "--results", str(results), "--to", str(tmp_path), "--figures"]
    )
    assert outcome.exit_code == 0, outcome.output
    drawn = sorted(path.stem for path in tmp_path.glob("*.svg"))
    assert drawn == sorted(part.anchor for part in PARTS)
    for path in tmp_path.glob("*.svg"):
        assert ElementTree.fromstring(path.read_text()).get("viewBox")


def test_findings_claim_no_loss_ratio_of_overload_and_no_range_of_one_value(view: View) -> None:
    """An overload rate has no bound on its loss; the count beside an interval is of rounds."""
    without = replace(view, rows=[row for row in view.rows if row.kind != "pdr"])
    carried = [one for one in findings(without) if one.startswith("Port to port, 64 B:")]
    assert carried and "under overload" in carried[0] and "0.5 %" not in carried[0]
    text = " ".join(findings(view))
    assert not re.search(r"is busy ([\d.]+) to \1 times", text) and " pairs)" not in text


def test_what_others_disturbed_is_told_by_what_was_measured(view: View) -> None:
    trials = {
        case: [replace(t, tsc_hz=2e9, waited_cycles=int(1e9 * t.duration_s)) for t in some]
        for case, some in view.trials.items()
    }
    page = render(replace(view, trials=trials))
    assert "took more than a tenth of what they measure" in page
    assert f"0 of {view.samples} samples are left out" in page
