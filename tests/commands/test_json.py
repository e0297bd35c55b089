# SPDX-License-Identifier: Apache-2.0
"""Every command can print JSON for programs."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import typer
from typer.core import TyperGroup
from typer.testing import CliRunner

from headrace.cli import app

WITHOUT = {
    "cluster controller": "a service in a pod: it prints nothing but its log",
    "cluster extender": "a service in a pod: it prints nothing but its log",
}
"""Commands that print nothing that a program could read, and why."""


def commands(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The commands that do something, with the words that call them."""
    if isinstance(command, TyperGroup):
        for name, below in command.commands.items():
            yield from commands(below, (*words, name))
    else:
        yield " ".join(words), command


ALL = dict(commands(typer.main.get_command(app)))


@pytest.mark.parametrize("words", ALL)
def test_a_command_prints_json(words: str) -> None:
    options = [name for parameter in ALL[words].params for name in parameter.opts]
    assert ("--json" in options) != (words in WITHOUT), WITHOUT.get(words)


def test_what_goes_without_is_there() -> None:
    assert set(WITHOUT) <= set(ALL)


@pytest.mark.parametrize(
    "words",
    [
        "pop vxlan",
        "remember --idle 5",
        "push gre --local 10.0.0.1 "
        "--remote 10.0.0.2 --src-mac 02:00:00:00:00:01 --dst-mac 02:00:00:00:00:02",
    ],
)
def test_an_action_is_the_same_as_json(words: str) -> None:
    plain = CliRunner().invoke(app, ["switch", *words.split()])
    told = CliRunner().invoke(app, ["switch", *words.split(), "--json"])
    assert plain.exit_code == 0 and plain.output.startswith("note:")
    assert json.loads(told.output) == {"action": plain.output.strip()}
