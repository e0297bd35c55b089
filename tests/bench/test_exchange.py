# SPDX-License-Identifier: Apache-2.0
"""Campaigns as they are stored: resumed, repeated, compared by manifest, exported, imported."""

import json
import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.bench.campaign import Campaign, Silent, SimulatedBed
from headrace.bench.plan import Clock, blocks_of
from headrace.bench.resume import restore, scenarios_of, step_of
from headrace.bench.scenario import find
from headrace.bench.steps import Timing
from headrace.cli import app
from headrace.results import Sample, Skip
from headrace.results.export import export
from headrace.results.flat import FlatError, flat_rows
from headrace.results.importing import import_file
from headrace.results.manifest_diff import differences
from headrace.results.store import Store


def bench(*arguments: str) -> tuple[int, str]:
    outcome = CliRunner().invoke(app, ["bench", *arguments])
    return outcome.exit_code, outcome.output


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("exchange") / "r.sqlite"
    code, output = bench(
        "run", "flow-sweep", "native-vnf", "--simulate", "--rounds", "2", "--results", str(path)
    )
    assert code == 0, output
    return path


@pytest.mark.parametrize("suffix", ["parquet", "csv", "json"])
def test_what_was_exported_comes_back(results: Path, tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"campaign.{suffix}"
    with Store(results) as store:
        export(store, 1, file)
        with Store(tmp_path / "other.sqlite") as other:
            number = import_file(other, file)
            assert list(flat_rows(other, number)) == list(flat_rows(store, 1))
            campaign = other.campaign(number)
            assert campaign.status == "imported"
            assert campaign.manifest["imported"]["file"] == file.name
            if suffix != "csv":
                assert campaign.manifest["machine"] == store.campaign(1).manifest["machine"]


def test_json_holds_all_trials_and_markdown_the_rows(results: Path, tmp_path: Path) -> None:
    with Store(results) as store:
        store.add_skip(1, Skip("flow-sweep", "64B", "vpp", "no vpp"))
        export(store, 1, tmp_path / "all.json")
        export(store, 1, tmp_path / "rows.md")
        trials = sum(len(list(store.trials(case))) for case in store.cases(1))
        with pytest.raises(FlatError, match=r"no format '.xls'; known: .parquet, .csv, .json, .md"):
            export(store, 1, tmp_path / "a.xls")
    document = json.loads((tmp_path / "all.json").read_text())
    assert len(document["trials"]) == trials > 0
    assert document["trials"][0]["case"]["scenario"] and document["skipped"][0]["reason"]
    text = (tmp_path / "rows.md").read_text()
    assert "| flow-sweep | 64B-1f-l3x512@headrace/in-process | mrr overload |" in text
    assert "skipped: 64B: no vpp" in text
    values = r"[\d.]+ [kM]pps \| [\d.]+ [kM]pps"
    assert re.search(rf"\| l3x512, 64B, 1 \| mrr \| {values} \| [12]\.\d+ \| not determined", text)


def test_others_results_are_read_in_their_units(tmp_path: Path) -> None:
    file = tmp_path / "theirs.csv"
    file.write_text(
        "scenario,switch,metric,value,unit,relation\nlab,vpp,ndr,12.5,Mpps,>=\n"
        "lab,vpp,latency_p99,15,us,\nlab,vpp,loss_ratio,0.01,%,\n"
    )
    with Store(tmp_path / "r.sqlite") as store:
        number = import_file(store, file)
        ((case_id, case),) = store.cases(number).items()
        assert case.switch == "vpp" and case.shape == "p2p"
        ndr, latency, loss = store.samples(case_id)
        assert ndr == Sample("ndr", "", 0, 12.5e6, relation=">=")
        assert latency == Sample("latency_p99", "", 0, 15e3)
        assert loss.value == pytest.approx(1e-4)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("scenario,switch,metric\na,b,ndr\n", "row 1: value missing"),
        ("scenario,switch,metric,value\na,b,speed,1\n", "metric 'speed'; known: ndr"),
        ("scenario,switch,metric,value,unit\na,b,ndr,1,furlong\n", "unit 'furlong'"),
        ("scenario,switch,metric,value\na,b,ndr,1\na,b,ndr,fast\n", "row 2: could not convert"),
        ("scenario,switch,metric,value,color\na,b,ndr,1,red\n", "unknown column color"),
        ("scenario,switch,metric,value\n", "no rows"),
    ],
)
def test_a_wrong_file_is_refused_whole(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "bad.csv"
    file.write_text(text)
    with Store(tmp_path / "r.sqlite") as store:
        with pytest.raises(FlatError, match=words):
            import_file(store, file)
        assert store.campaigns() == []


def test_manifests_differ_in_what_differs() -> None:
    old = {"machine": {"kernel": "6.1", "cores": 2}, "seed": 1, "generator": {"a": 1},
           "scenarios": [{"name": "x", "measure": {"width": 0.1}}]}  # fmt: skip
    new = {"machine": {"kernel": "6.12", "cores": 2}, "generator": {"a": 2},
           "scenarios": [{"name": "x", "measure": {"width": 0.2}}], "priority": "nice"}  # fmt: skip
    found = {one.path: (one.old, one.new) for one in differences(old, new)}
    assert found == {
        "machine.kernel": ("6.1", "6.12"),
        "scenarios[0].measure.width": ("0.1", "0.2"),
        "priority": ("(absent)", "nice"),
        "seed": ("1", "(absent)"),
    }


async def test_a_resumed_campaign_measures_what_is_missing_first(tmp_path: Path) -> None:
    scenarios = find(["port-to-port", "flow-sweep"])
    blocks = blocks_of(scenarios)

    class Interrupted(Exception):
        pass

    class Stops(Silent):
        count = 0

        def sampled(self, case: object, samples: object) -> None:
            self.count += 1
            if self.count == 15:
                raise Interrupted

    with Store(tmp_path / "r.sqlite") as store:
        number = store.begin({"scenarios": [one.model_dump(mode="json") for one in scenarios]})
        campaign = Campaign(store, number, SimulatedBed(), Stops(), Timing())
        with pytest.raises(Interrupted):
            await campaign.run(blocks, Clock(600, Timing()))
        had = {case: store.samples(case_id) for case_id, case in store.cases(number).items()}

        again = Campaign(store, number, SimulatedBed(), Silent(), Timing())
        assert scenarios_of(store.campaign(number).manifest) == scenarios
        again.expect(blocks)
        first = restore(again, store, number)
        assert first >= 1
        missing = {(job.case, kind) for block in again.precision.next() for job in block.jobs
                   for kind in job.kinds or ()}  # fmt: skip
        drawn = {(case, step_of(sample)) for case, samples in had.items() for sample in samples}
        assert missing and not missing & drawn
        await again.run(blocks, Clock(600, Timing()), rounds=40, first=first)
        now = {case: store.samples(case_id) for case_id, case in store.cases(number).items()}
        assert set(now) == {case for one in scenarios for case in one.cases()}
        for case, samples in had.items():
            assert now[case][: len(samples)] == samples
        assert not store.skips(number)


def test_a_campaign_is_resumed_and_repeated_by_command(results: Path, tmp_path: Path) -> None:
    code, output = bench("resume", "1", "--results", str(results))
    assert code == 1 and "is complete; `bench rerun` repeats it" in output.replace("\n", " ")
    with Store(results) as store:
        store.finish(1, "interrupted")
        before = len(list(flat_rows(store, 1)))
    code, output = bench("resume", "1", "--minutes", "1", "--results", str(results))
    assert code == 0, output
    with Store(results) as store:
        assert store.campaign(1).status == "complete"
        assert len(list(flat_rows(store, 1))) > before
    code, output = bench("rerun", "1", "--minutes", "1", "--results", str(results))
    assert code == 0 and "campaign 2" in output, output
    code, output = bench("rerun", "1", "--minutes", "1", "--results", str(results), "--json")
    told = json.loads(output[output.index('{"rows"') :])
    assert code == 0 and told["rows"] and told["manifest"]["seed"] == 1
    assert "seed" not in {one["path"] for one in told["differences"]}
    file = tmp_path / "1.json"
    code, output = bench("export", "1", str(file), "--results", str(results), "--json")
    assert code == 0 and json.loads(output) == {"campaign": 1, "file": str(file)}
    code, output = bench("import", str(file), "--results", str(results), "--json")
    assert code == 0 and json.loads(output) == {"campaign": 4, "results": str(results)}
    code, output = bench("diff", "1", "2", "--results", str(results), "--json")
    paths = {row["path"] for row in json.loads(output)}
    assert code == 0 and "seed" not in paths and not any(p.startswith("machine") for p in paths)


@pytest.mark.parametrize(
    ("sample", "kind"),
    [
        (Sample("ndr-quick", "", 0, 1), "search"),
        (Sample("pdr", "0.01% loss", 0, 1), "search"),
        (Sample("mrr", "overload", 0, 1), "overload"),
        (Sample("cycles_per_packet", "overload", 0, 1), "overload"),
        (Sample("loss_ratio", "120% overload", 0, 1), "loss_curve"),
        (Sample("latency_p99", "50% pdr", 0, 1), "latency"),
        (Sample("loss_ratio", "90% soak 60 s", 0, 1), "soak"),
        (Sample("cpu_percent", "20000 pps", 0, 1), "cost"),
        (Sample("outage_time", "reset at 10% pdr", 0, 1), "reset"),
        (Sample("outage_time", "reconfigure at 10% pdr", 0, 1), "reconfiguration"),
        (Sample("buffer_time", "", 0, 1), "back_to_back"),
    ],
)
def test_every_sample_knows_its_step(sample: Sample, kind: str) -> None:
    assert step_of(sample) == kind
