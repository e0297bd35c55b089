# SPDX-License-Identifier: Apache-2.0
"""A wrong document is refused with its place; the command says what it could not do."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from headrace.cli import app
from headrace.placement.document import DocumentError, load, parse
from tests.placement.test_plans import SMALL

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = [
    file for file in sorted((ROOT / "docs" / "placement").glob("*.yaml")) if file.stem != "one-node"
]


def wrong(**changed: Any) -> str:
    with pytest.raises(DocumentError) as caught:
        parse({**copy.deepcopy(SMALL), **changed})
    return str(caught.value)


def chain(**changed: Any) -> list[dict[str, Any]]:
    return [{"name": "c", "vnfs": ["fw", "fw"], "kpps": 100, **changed}]


def test_references_that_do_not_exist_are_named() -> None:
    assert "'nat' is no function; there are: fw" in wrong(chains=chain(vnfs=["nat"]))
    assert "'big' is no type" in wrong(servers=[{"name": "s", "type": "big"}])
    assert "'s9' is no server, type or rack" in wrong(chains=chain(servers=["s9"]))
    assert "no VNF 'c/2'" in wrong(chains=chain(), apart=[{"vnfs": ["c/0", "c/2"]}])
    assert "no VNF 'd/0'" in wrong(chains=chain(), apart=[{"vnfs": ["c/0", "d/0"]}])
    assert "no cost of shm ports" in wrong(functions={"fw": {"port": "shm"}})


def test_contradictions_are_named() -> None:
    assert "placement is gather, but apart" in wrong(
        chains=chain(placement="gather", apart=[[0, 1]])
    )
    assert "two have the name" in wrong(chains=chain() + chain())
    assert "two have the name" in wrong(servers=[{"name": "s", "type": "small"}] * 2)
    assert "not every server has a rack" in wrong(
        chains=chain(), apart=[{"vnfs": ["c/0", "c/1"], "domain": "rack"}]
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [("kpps", 0), ("kpps", -1), ("kpps", "nan"), ("kpps", "inf"), ("bytes", 10), ("vnfs", [])],
)
def test_values_out_of_range_are_refused(field: str, value: Any) -> None:
    assert f"chains.0.{field}" in wrong(chains=chain(**{field: value}))


def test_unknown_fields_are_refused() -> None:
    assert "colour" in wrong(colour="red")


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["place", *words])


def test_a_file_that_is_none_is_refused(tmp_path: Path) -> None:
    assert run(str(tmp_path / "none.yaml")).exit_code == 1
    bad = tmp_path / "bad.yaml"
    bad.write_text("types: [")
    ran = run(str(bad))
    assert ran.exit_code == 1 and "not YAML" in ran.stderr
    bad.write_text("- 1")
    assert run(str(bad)).exit_code == 1


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_the_examples_are_placed(path: Path) -> None:
    load(path)
    ran = run(str(path), "--json")
    assert ran.exit_code == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert not told["unplaced"] and told["cost"] >= told["bound"] - 1e-9
    assert set(told["reasons"]) == set(told["chains"])
    assert run(str(path)).exit_code == 0


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 2


def test_a_partial_plan_exits_with_3_and_a_plan_goes_on_from_another(tmp_path: Path) -> None:
    file = tmp_path / "file.yaml"
    file.write_text(yaml.safe_dump({**SMALL, "chains": chain(vnfs=["fw"] * 13)}))
    ran = run(str(file), "--json")
    assert ran.exit_code == 3
    assert json.loads(ran.stdout)["partial"]
    file.write_text(yaml.safe_dump(SMALL))
    plan = tmp_path / "plan.json"
    plan.write_text(run(str(file), "--json").stdout)
    victim = json.loads(plan.read_text())["chains"]["c"][0]
    after = json.loads(run(str(file), "--from", str(plan), "--failed", victim, "--json").stdout)
    assert victim not in after["chains"]["c"] and after["moved"] == 3
    ran = run(str(file), "--from", str(plan), "--failed", "s-9")
    assert ran.exit_code == 1 and "no server s-9" in ran.stderr
    plan.write_text("{}")
    assert run(str(file), "--from", str(plan)).exit_code == 1
    assert run(str(file), "--failed", victim).exit_code == 1
