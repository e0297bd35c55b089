# SPDX-License-Identifier: Apache-2.0
"""Scripts and images take other settings while they run, if they can."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from headrace.node.node import Node
from tests.guest.bed import eventually
from tests.guest.programs import chain, log_of, needs_runc, node_with, template
from tests.guest.test_supervision import pid_of
from tests.node.conftest import StartNode

pytestmark = [
    pytest.mark.root,
    needs_runc,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
]

PROGRAM = """#!/bin/sh
trap 'echo "now $(cat $HEADRACE_SETTINGS)"' HUP
echo "first $(cat $HEADRACE_SETTINGS)"
while :; do sleep 0.1; done
"""
HANG_UP = ["sh", "-c", "kill -HUP 1"]


async def settings(node: Node, **wanted: Any) -> None:
    """Updates the graph to these settings of its VNF."""
    await node.graphs.update("g", chain(more={"configuration": {"settings": wanted}}))


@pytest.mark.parametrize("kind", ["native", "container"])
async def test_a_change_of_settings_is_a_reload(
    start_node: StartNode, rundir: Path, kind: str
) -> None:
    allowed = {"graph-may-set": ["settings", "forward"]}
    more = {**allowed, "configuration": {"reload": HANG_UP, "settings": {"level": 1}}}
    async with node_with(start_node, template(rundir, kind, PROGRAM, **more)) as (node, _):
        await node.graphs.create("g", chain())
        await eventually(lambda: 'first {"level": 1}' in log_of(node))
        before = pid_of(node)
        await settings(node, level=2)
        await eventually(lambda: 'now {"level": 2}' in log_of(node))
        assert pid_of(node) == before
        vnf, engine = node.vnf("g", "v0")
        assert engine.running(vnf)
        old = vnf.model_copy(update={"configuration": {**vnf.configuration, "settings": {}}})
        assert not engine.running(old)  # what runs has other settings
        # Another field is another VNF.
        asked = {"settings": {"level": 2}, "forward": True}
        await node.graphs.update("g", chain(more={"configuration": asked}))
        assert pid_of(node) != before


@pytest.mark.parametrize("reload", [[], ["sh", "-c", "echo no >&2; exit 3"], ["/nothing"]])
async def test_one_that_cannot_is_started_anew(
    start_node: StartNode, rundir: Path, reload: list[str]
) -> None:
    more = {"graph-may-set": ["settings"], "configuration": {"reload": reload}}
    async with node_with(start_node, template(rundir, "native", PROGRAM, **more)) as (node, _):
        await node.graphs.create("g", chain())
        before = pid_of(node)
        await settings(node, level=2)
        await eventually(lambda: 'first {"level": 2}' in log_of(node))
        assert pid_of(node) != before
