# SPDX-License-Identifier: Apache-2.0
"""`headrace switch ...` at a switch that was started by hand, without a node."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.support.switch import Switch, unique_bridge

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

MAIN = "from headrace.cli import app; app()"


def ask(switch: Switch, *words: str) -> str:
    """What `headrace switch WORDS --rundir RUNDIR` prints."""
    done = subprocess.run(
        [sys.executable, "-c", MAIN, "switch", *words, "--rundir", str(switch.rundir)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "COLUMNS": "200"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_they_need_no_node(switch: Switch) -> None:
    bridge = unique_bridge()
    switch.vsctl("add-br", bridge, "--", "set-fail-mode", bridge, "secure")
    switch.vsctl("set-controller", bridge, f"unix:{switch.rundir}/nobody")
    switch.ofctl("add-flow", bridge, "in_port=7,actions=drop")
    shown = ask(switch, "show")
    assert bridge in shown
    assert f"controllers of {bridge}" in shown
    assert "No such file" in shown
    (lsi,) = json.loads(ask(switch, "show", "--json"))["lsis"]
    assert lsi["name"] == bridge
    (table,) = json.loads(ask(switch, "tables", "--json"))["lsis"][0]["tables"]
    assert table["rules"] == 1
    assert table["structure"] in ask(switch, "tables")
    assert "drops" in ask(switch, "drops")
    assert "workers" in ask(switch, "cycles", "--interval", "0.2")
    assert "ports: per second" in ask(switch, "top", "--count", "1", "--interval", "0.2")
