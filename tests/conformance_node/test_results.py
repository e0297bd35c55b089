# SPDX-License-Identifier: Apache-2.0
"""The tests' list and results: as text, JSON, JUnit's XML and a page with the charts of Annex C."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from headrace.conformance import registry, runner
from headrace.conformance.case import Part, Result, Verdict
from headrace.conformance.findings import Findings
from headrace.conformance.output.document import document, manifest_of
from headrace.conformance.output.html import page
from headrace.conformance.output.junit import junit
from tests.conformance_node.bed import FaultyBed


async def results(fault: int | None, only: str) -> list[Result]:
    found = [each async for each in runner.run(FaultyBed(fault), registry.chosen(only))]
    return sorted(found, key=lambda each: each.case.number)


def test_the_tests_are_the_26_of_three_annexes() -> None:
    parts = [case.part for case in registry.CASES.values()]
    assert [parts.count(part) for part in Part] == [10, 11, 5]
    for case in registry.CASES.values():
        assert case.name and case.configuration and case.expected, case.number
        assert isinstance(case.procedure, tuple) and all(case.procedure), case.number


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("", list(range(1, 27))), ("1-3,22", [1, 2, 3, 22]), ("5", [5]), (" 7 , 3-4 ", [3, 4, 7])],
)
def test_tests_are_chosen_by_numbers_and_ranges(text: str, numbers: list[int]) -> None:
    assert [case.number for case in registry.chosen(text)] == numbers


@pytest.mark.parametrize("text", ["0", "27", "3-1", "x", "1,,2", "1-"])
def test_what_is_no_choice_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="--only"):
        registry.chosen(text)


def test_the_list_as_a_command() -> None:
    done = CliRunner().invoke(app, ["conformance", "list", "--json", "--only", "25-26"])
    listed = json.loads(done.stdout)
    assert [each["number"] for each in listed] == [25, 26]
    assert set(listed[0]) == {"number", "name", "part", "configuration", "procedure", "expected"}


@pytest.mark.parametrize(
    "options",
    [
        ["--only", "99"],
        ["--url", "http://127.0.0.1:1"],
        ["--url", "http://127.0.0.1:1", "--wire", "p0"],
        ["--url", "http://127.0.0.1:1", "--listen", "here"],
        ["--dialect", "g9"],
        ["--wire", "p0=lo"],
        ["--html", "/no/such/folder/page.html"],
    ],
)
def test_wrong_options_are_told_in_one_line(options: list[str]) -> None:
    done = CliRunner().invoke(app, ["conformance", "run", *options])
    assert done.exit_code == 1
    assert len(done.output.strip().splitlines()) == 1, done.output


async def test_results_as_json_and_junit() -> None:
    found = await results(19, "5,19")
    made = document(found, manifest_of("here", found[0].information))
    assert made["summary"] == {"pass": 1, "fail": 1}
    wrong = [c for c in made["tests"][1]["evidence"]["comparisons"] if not c["met"]]
    assert wrong[0] == {
        "what": "rule there: packets more", "expected": "37", "came": "36", "met": False,
    }  # fmt: skip
    assert json.loads(json.dumps(made)) is not None

    root = ElementTree.fromstring(junit(found))
    assert [suite.get("failures") for suite in root] == ["0", "1"]
    failure = root.find("testsuite/testcase/failure")
    assert failure is not None and "expected 37, came 36" in (failure.text or "")


def test_junit_takes_any_text() -> None:
    case = registry.CASES[1]
    found = Findings()
    found.equal("a name", "\x00<&\ud800", "b")
    text = junit([Result(case, Verdict.FAIL, "bad \x1b[31m", 0.1, found)])
    ElementTree.fromstring(text.encode())
    skipped = junit([Result(case, Verdict.NOT_APPLICABLE, "elsewhere")])
    assert ElementTree.fromstring(skipped).find("testsuite/testcase/skipped") is not None


async def test_the_page_has_the_charts_of_each_configuration(tmp_path: Path) -> None:
    found = await results(None, "22,25,26")
    text = page(found, manifest_of("here", found[0].information))
    # Loss and latency for each kind of traffic; rate and latency for rules and for requests.
    assert text.count("<svg") == 2 * 3 + 4 + 6
    for words in ("single flow: loss", "1000 flows: latency", "realistic: loss", "Set-up rate"):
        assert words in text
    assert "<script" not in text and "<link" not in text and "src=" not in text
