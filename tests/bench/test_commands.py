# SPDX-License-Identifier: Apache-2.0
"""The commands as a person runs them, on simulated devices."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.results.store import Store

runner = CliRunner()


def bench(*arguments: str) -> tuple[int, str]:
    result = runner.invoke(app, ["bench", *arguments])
    return result.exit_code, result.output


@pytest.fixture(scope="module")
def two_campaigns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    results = tmp_path_factory.mktemp("campaigns") / "results.sqlite"
    for seed in ("1", "2"):
        code, output = bench(
            "run", "flow-sweep", "multi-vnf", "--simulate", "--rounds", "4", "--seed", seed,
            "--results", str(results),
        )  # fmt: skip
        assert code == 0, output
    return results


POLLS = """
import asyncio, sys, typer
from headrace.cli import app
from headrace.commands import family

@family(app, "bench").command("wait")
def wait() -> None:
    async def run() -> None:
        print("begun", flush=True)
        try:
            await asyncio.sleep(60)
        finally:
            print("ended what it started", flush=True)
    asyncio.run(run())

app(["bench", "wait"])
"""


@pytest.mark.parametrize("shell", [[], ["sh", "-c", 'trap \'\' INT; exec "$0" "$@"']])
def test_every_benchmark_ends_what_it_started_when_it_is_told_to_end(shell: list[str]) -> None:
    command = [*shell, sys.executable, "-c", POLLS]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as bench:
        assert bench.stdout is not None and bench.stdout.readline() == "begun\n"
        bench.terminate()
        assert bench.stdout.read() == "ended what it started\n"
    assert bench.returncode not in (0, -signal.SIGTERM)


def test_list_names_every_scenario() -> None:
    code, output = bench("list")
    assert code == 0
    for name in ("port-to-port", "multi-vnf", "chain-cost", "flow-sweep", "native-vnf"):
        assert name in output


def test_run_prints_stores_and_compares(two_campaigns: Path) -> None:
    with Store(two_campaigns) as store:
        assert [campaign.status for campaign in store.campaigns()] == ["complete", "complete"]
        assert store.campaign(1).manifest["simulated"] is True
        assert store.campaign(1).manifest["definitions"]["mrr"]
    code, output = bench("compare", "1", "2", "--results", str(two_campaigns), "--json")
    assert code == 0
    rows = json.loads(output)["rows"]
    assert {row["name"].split("/")[0] for row in rows} == {"flow-sweep", "multi-vnf"}
    verdicts = [row["verdict"] for row in rows]
    assert "worse" not in verdicts and {"same", "not determined"} <= set(verdicts)


def test_json_rows_have_the_promised_members(tmp_path: Path) -> None:
    code, output = bench(
        "run", "flow-sweep", "--simulate", "--rounds", "3", "--json",
        "--results", str(tmp_path / "r.sqlite"),
    )  # fmt: skip
    assert code == 0
    answer = json.loads(output.splitlines()[-1])
    assert {"rows", "skipped", "manifest"} <= set(answer)
    for row in answer["rows"]:
        assert {"name", "value", "unit", "goal", "met", "samples"} <= set(row)
    ratios = [row for row in answer["rows"] if row["unit"] == "ratio"]
    assert len(ratios) == 4 and all(row["met"] and row["value"] > 1.5 for row in ratios)


def test_quick_measures_without_searching(tmp_path: Path) -> None:
    results = tmp_path / "r.sqlite"
    code, output = bench("run", "--quick", "--simulate", "--results", str(results))
    assert code == 0, output
    with Store(results) as store:
        number = store.campaign().id
        metrics = {
            sample.metric for case_id in store.cases(number) for sample in store.samples(case_id)
        }
        assert "mrr" in metrics and "cpu_percent" in metrics and "ndr" not in metrics
        assert not store.skips(number)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["run", "nope", "--simulate"], "no scenario 'nope'"),
        (["compare", "1", "2"], "does not exist"),
    ],
)
def test_errors_are_words_not_tracebacks(tmp_path: Path, arguments: list[str], words: str) -> None:
    code, output = bench(*arguments, "--results", str(tmp_path / "none.sqlite"))
    assert code == 1
    assert words in output.replace("\n", " ") and "Traceback" not in output


def test_comparing_an_unknown_campaign_says_which_there_are(two_campaigns: Path) -> None:
    code, output = bench("compare", "1", "7", "--results", str(two_campaigns))
    assert code == 1 and "known: 1, 2" in output


@pytest.mark.parametrize("goal", ["rfc2544", "csit", "tst009"])
def test_one_search_is_made_to_its_end_by_a_command(tmp_path: Path, goal: str) -> None:
    done = CliRunner().invoke(
        app,
        ["bench", "search", goal, "--trials-of", "1", "--loss", "0.01", "--simulate", "--json",
         "--results", str(tmp_path / "r.sqlite")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
    (searched,) = (row for name, row in rows.items() if "pdr at 1% loss, 1 s trials" in name)
    assert searched["value"] > 1e6
    # CSIT's definition has a rate under overload besides.
    assert any("mrr" in name for name in rows) == (goal == "csit")


def test_a_search_that_is_none_says_what_there_is(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["bench", "search", "quick", "--trials-of", "1", "--results", str(tmp_path / "r")]
    )
    assert done.exit_code == 1 and "is for csit, rfc2544 and tst009" in done.output
