# SPDX-License-Identifier: Apache-2.0
"""What the pages show is so: their graph deploys, their files load, their commands exist."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

from headrace.cli import app
from headrace.node.config import from_dict, usable_cores
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.templates import Template
from tests.docs.pages import PAGES, ROOT, block, command_lines
from tests.node.surroundings import surroundings


def test_the_graph_of_the_page_is_planned_without_a_warning() -> None:
    graph, warnings = parse(json.loads(block("docs/graphs.md", "json")))
    plan = make_plan(graph, "g", 1, surroundings())
    assert warnings == [] and plan.warnings == ()
    assert len(plan.rules()) == 8
    assert [vnf.template for vnf in plan.vnfs()] == ["pass"]


def test_the_node_yaml_of_the_page_is_what_a_node_reads() -> None:
    if len(usable_cores()) < 2:
        pytest.skip("the page's node.yaml is for two cores")
    values: dict[str, Any] = yaml.safe_load(block("docs/node.md", "yaml"))
    config = from_dict(values)
    assert [port.name for port in config.ports or []] == ["p0", "wan"]
    unwritten = set(type(config).model_fields) - set(values)
    assert unwritten == set(), "keys that the page does not show"


def test_the_template_of_the_page_is_one() -> None:
    template = Template.model_validate(yaml.safe_load(block("docs/graphs.md", "yaml")))
    assert (template.id, template.engine, template.cores) == ("pass-big", "process", 1)


def test_every_template_is_on_a_page() -> None:
    text = (ROOT / "docs/graphs.md").read_text() + (ROOT / "docs/vnf.md").read_text()
    for path in (ROOT / "headrace/node/templates").glob("*.yaml"):
        name = yaml.safe_load(path.read_text())["id"]
        assert f"`{name}`" in text, f"{path.name} makes a template that no page names"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_of_the_pages_exist(page: Path) -> None:
    wrong = [
        f"{page.relative_to(ROOT)}:{number}: {complaint}"
        for number, line in command_lines(page)
        for complaint in complaints(line)
    ]
    assert wrong == []


def complaints(line: str) -> Iterator[str]:
    """What of `headrace a|b [--option VALUE]` there is not."""
    command: Any = typer.main.get_command(app)
    for word in re.sub(r"[\[\]]", " ", line).split()[1:]:
        if hasattr(command, "commands"):
            names = [name for name in word.split("|") if name]
            for name in names:
                if name not in command.commands:
                    yield f"{line}: there is no {name}"
                    return
            if len(names) > 1:
                return
            command = command.commands[names[0]]
        elif word == "--":
            return  # what follows is no option of ours
        elif word.startswith("--"):
            known = {option for param in command.params for option in param.opts}
            if word.split("=")[0] not in known | {"--help"}:
                yield f"{line}: {command.name} has no {word}"


def test_the_complaints_find_what_is_not_there() -> None:
    assert list(complaints("headrace graph deploy x f.json")) == []
    assert list(complaints("headrace graph deplore")) == [
        "headrace graph deplore: there is no deplore"
    ]
    assert list(complaints("headrace up [--fast]")) == ["headrace up [--fast]: up has no --fast"]
    assert list(complaints("headrace switch show|tables")) == []
