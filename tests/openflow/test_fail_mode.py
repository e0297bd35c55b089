# SPDX-License-Identifier: Apache-2.0
"""fail-mode while no controller answers."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.switch import running_switch

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

BRIDGE = f"fail{os.getpid()}"
RULE = "cookie=0x6661696c2d6f706e"


def test_standalone_forwards_without_its_controller_and_secure_does_not(tmp_path: Path) -> None:
    with running_switch(tmp_path, extra=("--no-huge",)) as switch:
        for name, mode in ((BRIDGE, "standalone"), (BRIDGE + "s", "secure")):
            switch.vsctl(
                *("add-br", name, "--", "set-fail-mode", name, mode),
                *("--", "set-controller", name, f"unix:{tmp_path}/nobody"),
            )
            switch.vsctl("set", "Controller", name, "inactivity_probe=1000")
            assert RULE not in switch.ofctl("dump-flows", name)
        end = time.monotonic() + 30
        while RULE not in (flows := switch.ofctl("dump-flows", BRIDGE)):
            assert time.monotonic() < end, flows
            time.sleep(0.1)
        assert "priority=65535 actions=NORMAL" in flows
        assert "actions" not in switch.ofctl("dump-flows", BRIDGE + "s")
        switch.vsctl("set-fail-mode", BRIDGE, "secure")
        while RULE in switch.ofctl("dump-flows", BRIDGE):
            assert time.monotonic() < end
            time.sleep(0.1)


def test_a_change_of_the_mode_starts_the_rules_anew(tmp_path: Path) -> None:
    """As in Open vSwitch: `add-br` and a later `set-fail-mode secure` leave no NORMAL behind."""
    with running_switch(tmp_path, extra=("--no-huge",)) as switch:
        switch.vsctl("add-br", BRIDGE)
        assert "priority=0 actions=NORMAL" in switch.ofctl("dump-flows", BRIDGE)
        switch.vsctl("set-fail-mode", BRIDGE, "secure")
        assert "actions" not in switch.ofctl("dump-flows", BRIDGE)
        switch.ofctl("add-flow", BRIDGE, "table=3,actions=drop")
        switch.vsctl("set-fail-mode", BRIDGE, "secure")
        assert "table=3" in switch.ofctl("dump-flows", BRIDGE)
        switch.vsctl("del-fail-mode", BRIDGE)
        flows = switch.ofctl("dump-flows", BRIDGE)
        assert "priority=0 actions=NORMAL" in flows
        assert "table=3" not in flows
