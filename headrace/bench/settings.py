# SPDX-License-Identifier: Apache-2.0
"""Defaults of the commands, apart from what they run so that `--help` loads nothing heavy."""

from pathlib import Path

SCENARIOS = Path(__file__).resolve().parent.parent.parent / "scenarios"
DEFAULT_MINUTES = 8.0
QUICK_MINUTES = 1.0
