# SPDX-License-Identifier: Apache-2.0
"""Commands in virtual machines by QEMU's guest agent: its protocol, and a machine that has one."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from headrace.engines.base import EngineError
from headrace.engines.guest_agent import GuestAgent
from headrace.node.restarts import Restarter
from tests.guest.guest import wire_script
from tests.guest.programs import node_with
from tests.guest.test_machines import template
from tests.node import graphs
from tests.node.conftest import StartNode

QEMU_GA = "/usr/sbin/qemu-ga"


class FakeAgent:
    """Answers as qemu-ga does; `hostile` are octets that it sends in place of an answer."""

    def __init__(self) -> None:
        self.got: list[dict[str, Any]] = []
        self.polls_before_end = 2
        self.ends = True
        self.hostile: dict[str, bytes] = {}

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # What an earlier user has left unread comes first.
        writer.write(b'{"return": {}}\n')
        while line := (await reader.readline()).lstrip(b"\xff"):
            message = json.loads(line)
            self.got.append(message)
            name, arguments = message["execute"], message.get("arguments", {})
            if name in self.hostile:
                writer.write(self.hostile[name])
                continue
            before, answer = b"", self._answer(name, arguments)
            if name == "guest-sync-delimited":
                before = b"\xff"
            writer.write(before + json.dumps(answer).encode() + b"\n")
        writer.close()

    def _answer(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        if name == "guest-sync-delimited":
            return {"return": arguments["id"]}
        if name == "guest-exec":
            if arguments["path"] == "nosuch":
                return {"error": {"class": "GenericError", "desc": "Failed to execute child"}}
            return {"return": {"pid": 77}}
        assert name == "guest-exec-status" and arguments == {"pid": 77}
        self.polls_before_end -= 1
        if self.polls_before_end > 0 or not self.ends:
            return {"return": {"exited": False}}
        out = base64.b64encode(b"said\n").decode()
        return {"return": {"exited": True, "exitcode": 3, "out-data": out}}


@asynccontextmanager
async def agent_at(socket: Path) -> AsyncIterator[FakeAgent]:
    fake = FakeAgent()
    server = await asyncio.start_unix_server(fake.serve, str(socket))
    async with server:
        yield fake


async def test_a_command_to_its_end(tmp_path: Path) -> None:
    async with agent_at(tmp_path / "agent") as fake, GuestAgent(tmp_path / "agent") as agent:
        done = await agent.execute(["ls", "-l", "/"], b"in", 10)
        assert (done.exit_code, done.stdout, done.stderr) == (3, b"said\n", b"")
        asked = fake.got[1]["arguments"]
        assert (asked["path"], asked["arg"]) == ("ls", ["-l", "/"])
        assert base64.b64decode(asked["input-data"]) == b"in" and asked["capture-output"]
        with pytest.raises(EngineError, match="Failed to execute child"):
            await agent.execute(["nosuch"], b"", 10)


async def test_a_command_that_does_not_end_is_killed(tmp_path: Path) -> None:
    async with agent_at(tmp_path / "agent") as fake, GuestAgent(tmp_path / "agent") as agent:
        fake.ends = False
        assert (await agent.execute(["sleep", "60"], b"", 0.05)).exit_code is None
        assert fake.got[-1]["arguments"] == {"path": "kill", "arg": ["-KILL", "77"]}


@pytest.mark.parametrize(
    ("command", "octets", "words"),
    [
        ("guest-exec", b"no JSON\n", "says"),
        ("guest-exec", b'{"return": 7}\n', "names no pid"),
        ("guest-exec", b'{"return": {"pid": "x"}}\n', "names no pid"),
        ("guest-exec-status", b'{"return": []}\n', "says"),
        ("guest-exec-status", b'{"return": {"exited": true, "out-data": 5}}\n', "no base64"),
        ("guest-exec-status", b"[1]\n", "refuses"),
    ],
)
async def test_what_a_guest_says_is_not_trusted(
    tmp_path: Path, command: str, octets: bytes, words: str
) -> None:
    async with agent_at(tmp_path / "agent") as fake:
        fake.hostile[command] = octets
        with pytest.raises(EngineError, match=words):
            async with GuestAgent(tmp_path / "agent") as agent:
                await agent.execute(["ls"], b"", 5)


async def test_no_agent_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EngineError, match="cannot be reached"):
        async with GuestAgent(tmp_path / "none"):
            pass
    monkeypatch.setattr("headrace.engines.guest_agent._ANSWER_S", 0.1)
    async with agent_at(tmp_path / "agent") as fake:
        fake.hostile["guest-sync-delimited"] = b"..."
        with pytest.raises(EngineError, match="does qemu-ga run"):
            async with GuestAgent(tmp_path / "agent"):
                pass


def ask_whether_it_works(file: Path) -> None:
    """Gives a template a probe: a command that looks for a file."""
    words = yaml.safe_load(file.read_text())
    words["readiness"] = {"exec": ["test", "-e", "/works"], "period_s": 1, "failures": 1}
    file.write_text(yaml.safe_dump(words))


@pytest.mark.root
@pytest.mark.full
@pytest.mark.timeout(400)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a node")
@pytest.mark.skipif(shutil.which(QEMU_GA) is None, reason="install qemu-guest-agent")
async def test_commands_and_probes_in_a_machine(start_node: StartNode, rundir: Path) -> None:
    lines = [
        *wire_script("br0", "eth0", "eth1"),
        "mkdir -p /var/run /run && touch /works",
        "until [ -e /dev/vport*p1 ]; do sleep 0.2; done",
        "qemu-ga -m virtio-serial -p /dev/vport*p1 -t /run &",
        "echo 'guest: forwards'",
    ]
    file = template(
        rundir,
        lines,
        "virtio_console",
        programs=[Path(QEMU_GA)],
        ready="guest: forwards",
        guest_agent=True,
    )
    ask_whether_it_works(Path(file))
    async with node_with(start_node, file) as (node, http):
        document = graphs.chain("guest", 1)
        assert (await http.put("/NF-FG/g", json=document, timeout=300)).status_code == 201
        path = "/node/vnfs/g/v0/exec"
        body = {"command": ["sh", "-c", "cat; echo bad >&2; exit 7"], "stdin": "in"}
        done = (await http.post(path, json=body, timeout=60)).json()
        assert (done["exit_code"], done["stdout"], done["stderr"]) == (7, "in", "bad\n")

        def ready() -> Any:
            return node.status(node.graphs.record("g"))["vnfs"][0]["ready"]

        restarter = Restarter(node)  # which puts the questions

        async def comes_to_be(wanted: bool) -> None:
            async with asyncio.timeout(60):
                while ready() is not wanted:
                    await restarter.look()
                    await asyncio.sleep(0.2)

        await comes_to_be(True)
        body = {"command": ["rm", "/works"]}
        assert (await http.post(path, json=body, timeout=60)).json()["exit_code"] == 0
        await comes_to_be(False)
