# SPDX-License-Identifier: Apache-2.0
"""A representative part of os-ken's OpenFlow 1.3 suite; `make conformance-openflow` runs it all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.root, pytest.mark.dpdk]


def test_representative_part_passes(tmp_path: Path) -> None:
    file = tmp_path / "outcomes.json"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.conformance_openflow.run"),
            *("--subset", "--quiet", "--json", str(file)),
        ],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outcomes = json.loads(file.read_text())["outcomes"]
    assert len(outcomes) > 200
    assert all(outcome["ok"] for outcome in outcomes)
