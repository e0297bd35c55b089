# SPDX-License-Identifier: Apache-2.0
"""All tests run in namespaces of their own (support/apart.py), so that nothing outlives them."""

from __future__ import annotations

import os
import signal
from types import FrameType

import pytest

from tests.support import apart


def _end_once(number: int, frame: FrameType | None) -> None:
    """Ends the run as Ctrl-C does; a second SIGTERM, to the process group, is the same one."""
    signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


def pytest_configure(config: pytest.Config) -> None:
    """Moves the run into its namespaces; SIGTERM then ends it as Ctrl-C does, with tear-down."""
    if apart.wanted():
        capture = config.pluginmanager.getplugin("capturemanager")
        if capture is not None:
            capture.stop_global_capturing()
        apart.move(config.invocation_params.args)
    if os.environ.get(apart.VARIABLE) == apart.INSIDE:
        signal.signal(signal.SIGTERM, _end_once)


def pytest_report_header() -> str:
    """Says where the tests run."""
    if os.environ.get(apart.VARIABLE) == apart.INSIDE:
        return "namespaces: of this run alone (tests/support/apart.py)"
    return "namespaces: the machine's: what a killed run makes stays until the next start"
