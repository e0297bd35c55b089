# SPDX-License-Identifier: Apache-2.0
"""VNFs that end, hang or are not ready: restarted as their templates say, and shown as they are."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from headrace.engines.supervision import RestartPolicy
from headrace.machine.reaping import become_reaper
from headrace.node.errors import ConfigError
from headrace.node.node import Node
from headrace.node.restarts import Restarter
from headrace.node.supervision import VnfState
from headrace.node.templates import load
from tests.guest.programs import SERVER, chain, needs_runc, node_with, template
from tests.node.conftest import StartNode

WEB = """#!/bin/sh
mkdir /tmp/www; echo fine >/tmp/www/ok
exec busybox httpd -f -p 8000 -h /tmp/www
"""
ON = "on-failure"
root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces")


async def look_until(node: Node, condition: Any, patience_s: float = 60.0) -> None:
    """Lets the node look after its VNFs until `condition` of the status of `v0` holds."""
    restarter = Restarter(node)
    end = time.monotonic() + patience_s
    while not condition(shown := status(node)):
        assert time.monotonic() < end, shown
        await restarter.look()
        await node.supervision.settle()
        await asyncio.sleep(0.05)


def status(node: Node) -> dict[str, Any]:
    """The status of `v0` of graph `g`, with the graph's message."""
    whole = node.status(node.graphs.record("g"))
    found: dict[str, Any] = whole["vnfs"][0]
    return {**found, "graph": whole["status"], "message": whole["message"]}


def pid_of(node: Node) -> int:
    process = node.supervisor.find(f"vnf-{node.vnf('g', 'v0')[0].name}")
    assert process is not None
    return process.pid


@pytest.mark.parametrize(
    ("policy", "code", "restarted"),
    [
        ({}, 0, True),
        ({"policy": "on-failure"}, 0, False),
        ({"policy": "on-failure"}, 3, True),
        ({"policy": "on-failure"}, None, True),
        ({"policy": "never"}, 3, False),
    ],
)
def test_a_policy_decides(policy: dict[str, Any], code: int | None, restarted: bool) -> None:
    state = VnfState()
    assert state.may_restart(RestartPolicy(**policy), code, 0.0) is restarted
    assert bool(state.held) is not restarted
    assert state.may_restart(RestartPolicy(**policy), 3, 1e6) is restarted  # what is held stays


def test_it_waits_longer_each_time_and_gives_up_at_its_limit() -> None:
    policy, state = RestartPolicy(backoff_s=2, longest_s=5, limit=4), VnfState()
    tries = [now / 10 for now in range(1000) if state.may_restart(policy, 1, now / 10)]
    assert tries == [0.0, 2.0, 6.0, 11.0]
    assert "restarted 4 times" in state.held and state.restarts == 4
    state = VnfState()
    assert state.may_restart(policy, 1, 0.0)
    assert state.may_restart(policy, 1, 100.0) and state.streak == 1  # it was steady in between


def test_one_that_failed_its_probe_has_failed_whatever_it_ended_with() -> None:
    state = VnfState(failed="it failed")
    assert state.may_restart(RestartPolicy(policy="on-failure"), 0, 0.0)


@root
@needs_runc
@pytest.mark.root
@pytest.mark.parametrize("kind", ["native", "container"])
async def test_restarts_are_counted_and_limited(
    start_node: StartNode, rundir: Path, kind: str
) -> None:
    restart = {"policy": ON, "backoff_s": 0.1, "longest_s": 0.2, "limit": 2}
    become_reaper()
    try:
        async with node_with(start_node, template(rundir, kind, SERVER, restart=restart)) as (
            node,
            http,
        ):
            assert (await http.put("/NF-FG/g", json=chain())).status_code == 201
            for count in (1, 2):
                os.kill(pid_of(node), signal.SIGKILL)
                await look_until(node, lambda s, n=count: s["restarts"] == n and s["running"])
            os.kill(pid_of(node), signal.SIGKILL)
            await look_until(node, lambda s: s["held"])
            shown = status(node)
            assert shown["held"] == "it has ended with -9; it was restarted 2 times, its limit"
            assert shown["graph"] == "error" and shown["held"] in shown["message"]
            for _ in range(3):
                await Restarter(node).look()
            assert not status(node)["running"]
            # Asked for again, it begins anew.
            assert (await http.put("/NF-FG/g", json=chain())).status_code == 202
            assert status(node)["running"] and status(node)["restarts"] == 0
            assert status(node)["graph"] == "complete"
    finally:
        become_reaper(False)


@root
@needs_runc
@pytest.mark.root
async def test_one_that_has_done_its_work_is_left_alone(
    start_node: StartNode, rundir: Path
) -> None:
    text = "#!/bin/sh\nsleep 2; exit 0\n"
    become_reaper()
    try:
        file = template(rundir, "native", text, restart={"policy": ON})
        async with node_with(start_node, file) as (node, http):
            assert (await http.put("/NF-FG/g", json=chain())).status_code == 201
            await look_until(node, lambda s: s["held"])
            assert status(node)["held"] == "it has ended with 0; its restart policy is on-failure"
            assert (await http.delete("/NF-FG/g")).status_code == 204
    finally:
        become_reaper(False)


@root
@needs_runc
@pytest.mark.root
@pytest.mark.parametrize("kind", ["native", "container"])
async def test_probes_tell_who_is_ready_and_end_who_hangs(
    start_node: StartNode, rundir: Path, kind: str
) -> None:
    quick = {"period_s": 0.1, "timeout_s": 2}
    more = {
        "readiness": {"http": {"port": 8000, "path": "/ok"}, "failures": 1, **quick},
        "liveness": {"tcp": 8000, "initial_s": 1, "failures": 2, **quick},
        "restart": {"backoff_s": 0.1},
    }
    async with node_with(start_node, template(rundir, kind, WEB, **more)) as (node, http):
        assert (await http.put("/NF-FG/g", json=chain())).status_code == 201
        await look_until(node, lambda s: s["ready"] is True)
        before = pid_of(node)
        vnf, engine = node.vnf("g", "v0")
        words = ["busybox", "rm", "/tmp/www/ok"]
        done = await engine.execute(vnf, words)  # type: ignore[attr-defined]
        assert done.exit_code == 0
        await look_until(node, lambda s: s["ready"] is False)
        assert status(node)["probes"] == {"readiness": "GET /ok: 404"} and pid_of(node) == before
        assert status(node)["restarts"] == 0

        os.kill(before, signal.SIGKILL)
        await look_until(node, lambda s: s["restarts"] == 1 and s["ready"] is True)


@root
@needs_runc
@pytest.mark.root
async def test_one_that_fails_its_liveness_probe_is_restarted(
    start_node: StartNode, rundir: Path
) -> None:
    text = '#!/bin/sh\ntouch "$XDG_RUNTIME_DIR/alive"; exec sleep 100000\n'
    probe = {"exec": ["sh", "-c", 'test -e "$XDG_RUNTIME_DIR/alive"'], "failures": 2}
    more = {"liveness": {**probe, "period_s": 0.1}, "restart": {"policy": ON, "backoff_s": 0.1}}
    async with node_with(start_node, template(rundir, "native", text, **more)) as (node, http):
        assert (await http.put("/NF-FG/g", json=chain())).status_code == 201
        await look_until(
            node, lambda s: node.supervision.state(node.vnf("g", "v0")[0]).liveness.passes
        )
        before = pid_of(node)
        vnf, engine = node.vnf("g", "v0")
        words = ["sh", "-c", 'rm "$XDG_RUNTIME_DIR/alive"']
        done = await engine.execute(vnf, words)  # type: ignore[attr-defined]
        assert done.exit_code == 0
        await look_until(node, lambda s: s["restarts"] == 1 and s["running"])
        assert pid_of(node) != before and status(node)["ready"] is None


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"readiness": {}}, "one of exec, tcp and http"),
        ({"readiness": {"tcp": 1, "exec": ["true"]}}, "one of exec, tcp and http"),
        ({"readiness": {"tcp": 70000}}, "readiness.tcp"),
        ({"liveness": {"http": {"port": 1, "path": "x"}}}, "liveness.http.path"),
        ({"engine": "process", "function": "pass", "liveness": {"tcp": 1}}, "no TCP ports"),
        ({"engine": "vm", "function": "guest", "liveness": {"exec": ["x"]}}, "runs no commands"),
        ({"restart": {"policy": "sometimes"}}, "restart.policy"),
        ({"restart": {"limit": 0}}, "restart.limit"),
    ],
)
def test_a_wrong_template_is_refused(rundir: Path, more: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        load([Path(template(rundir, "native", SERVER, **more))])
