# SPDX-License-Identifier: Apache-2.0
"""What the shell is offered after `headrace graph ...`."""

import os
import subprocess
import sys
from pathlib import Path

from headrace.machine.places import RUNDIR_VARIABLE
from tests.docs.pages import ROOT

MAIN = "from headrace.cli import app; app(prog_name='headrace')"


def offered(words: str, place: Path) -> list[str]:
    """What bash is offered for the last word of a line."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(ROOT),
        RUNDIR_VARIABLE: str(place / "none"),
        "_HEADRACE_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split(" ")) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", MAIN],
        env=environment, cwd=place, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split()


def test_commands_and_examples_are_offered(tmp_path: Path) -> None:
    (tmp_path / "example.json").touch()
    assert "watch" in offered("headrace graph wa", tmp_path)
    assert "example:pass" in offered("headrace graph deploy mine example:p", tmp_path)
    assert "example.json" in offered("headrace graph deploy mine exam", tmp_path)
    # Without a node there are no ids, and nothing is said in the middle of the line.
    assert offered("headrace graph status x", tmp_path) == []
