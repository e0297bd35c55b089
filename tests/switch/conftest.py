# SPDX-License-Identifier: Apache-2.0
"""A switch per test."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.janitor import removed_at_the_latest
from tests.support.switch import Switch, running_switch


@pytest.fixture
def rundir() -> Iterator[Path]:
    """A directory with a short name: the path of a Unix socket has at most 107 characters."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-test-") as path,
        removed_at_the_latest("directory", path),
    ):
        yield Path(path)


@pytest.fixture
def switch(rundir: Path) -> Iterator[Switch]:
    """A running switch without bridges."""
    with running_switch(rundir) as running:
        yield running
