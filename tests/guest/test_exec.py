# SPDX-License-Identifier: Apache-2.0
"""Commands in VNFs: with the VNF's user, namespaces and limits, and nothing left of them."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.machine.programs import ProgramMissing, find_program
from tests.guest.bed import eventually
from tests.guest.programs import SERVER, chain, needs_runc, node_with, template
from tests.node import graphs
from tests.node.conftest import StartNode

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
]
INTERFACES = "ls /proc/self/net/ >/dev/null; cut -d: -f1 /proc/net/dev | tail -n +3"


async def run(http: httpx.AsyncClient, *command: str, **more: Any) -> dict[str, Any]:
    body = {"command": command, **more}
    answer = await http.post("/node/vnfs/g/v0/exec", json=body)
    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()
    return result


async def check(http: httpx.AsyncClient, user: str) -> None:
    """What commands are in any engine; `user` is what `id -u` says there."""
    done = await run(
        http, "sh", "-c", f"id -u; {INTERFACES}; echo bad >&2; cat; exit 7", stdin="in"
    )
    assert done["exit_code"] == 7 and done["stderr"] == "bad\n" and not done["truncated"]
    words = done["stdout"].split()
    assert words[0] == user and words[-1] == "in" and sorted(words[1:-1]) == ["eth0", "eth1", "lo"]
    assert (await run(http, "nosuchprogram"))["exit_code"] not in (0, None)
    before = time.monotonic()
    marker = f"987{os.getpid()}"
    done = await run(http, "sleep", marker, timeout_s=1)
    assert done["exit_code"] is None and time.monotonic() - before < 20
    await eventually(lambda: not pids_of(marker))
    long = await run(http, "sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x")
    assert long["truncated"] and len(long["stdout"]) == 1 << 20
    # What stays in the background ends with the VNF, and does not keep it from ending.
    done = await run(http, "sh", "-c", f"sleep {marker} >/dev/null 2>&1 & echo done")
    assert done["stdout"] == "done\n" and pids_of(marker)
    assert (await http.delete("/NF-FG/g")).status_code == 204
    assert not pids_of(marker)


def pids_of(word: str) -> list[str]:
    """The processes that have this word on their command line."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in place.read_bytes().split(b"\0"):
                found.append(place.parent.name)
        except OSError:
            continue
    return found


@needs_runc
@pytest.mark.parametrize("kind", ["native", "container"])
async def test_in_a_container(start_node: StartNode, rundir: Path, kind: str) -> None:
    more = {"environment": {"MODE": "strict"}}
    async with node_with(start_node, template(rundir, kind, SERVER, **more)) as (node, http):
        assert (await http.put("/NF-FG/g", json=chain())).status_code == 201
        vnf, _ = node.vnf("g", "v0")
        process = node.supervisor.find(f"vnf-{vnf.name}")
        done = await run(http, "sh", "-c", "echo $MODE; cat /proc/1/environ /proc/self/environ")
        assert done["stdout"].startswith("strict\n")
        assert done["stdout"].count("HEADRACE_OWNER") == 1  # that of the VNF, not of the command
        assert node.supervisor.find(f"vnf-{vnf.name}") == process
        await check(http, "0")


@pytest.mark.dpdk
async def test_in_a_process(start_node: StartNode) -> None:
    try:
        find_program("headrace-vnf")
    except ProgramMissing as error:
        pytest.skip(str(error))
    async with node_with(start_node, None, hugepages="off") as (node, http):
        assert (await http.put("/NF-FG/g", json=graphs.chain("pass", 1))).status_code == 201
        vnf, _ = node.vnf("g", "v0")
        done = await run(http, "cat", "/proc/self/status", "/proc/self/cgroup")
        assert f"Uid:\t{vnf.user}\t{vnf.user}" in done["stdout"]
        assert "NoNewPrivs:\t1" in done["stdout"] and vnf.name in done["stdout"]
        await check(http, str(vnf.user))


async def test_not_where_there_is_no_process(start_node: StartNode) -> None:
    async with node_with(start_node, None) as (_, http):
        assert (await http.put("/NF-FG/g", json=graphs.chain("bridge", 1))).status_code == 201
        answer = await http.post("/node/vnfs/g/v0/exec", json={"command": ["ls"]})
        assert answer.status_code == 400 and "runs no commands" in answer.json()["message"]
