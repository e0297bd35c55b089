# SPDX-License-Identifier: Apache-2.0
"""Native and container VNFs of a shell script each, on the kernel's bridge, by the REST API."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from headrace.engines.runc import RUNC
from headrace.machine.places import log_directory
from headrace.node.node import Node
from headrace.node.rest.app import make_app
from tests.guest.images import Image, busybox
from tests.node import graphs
from tests.node.conftest import StartNode, give_template

needs_runc = pytest.mark.skipif(shutil.which(RUNC) is None, reason=f"{RUNC} is not installed")

SERVER = """#!/bin/sh
echo "mode ${MODE:-none} level ${LEVEL:-none}"
exec busybox nc -ll -p 7000 -e /bin/cat
"""


def template(rundir: Path, kind: str, text: str, **more: Any) -> str:
    """A template `mine` of engine `native` (a script) or `container` (an image); its file."""
    configuration: dict[str, Any]
    if kind == "native":
        program = rundir / "program"
        program.write_text(text)
        program.chmod(0o755)
        configuration = {"program": str(program)}
    else:
        place = rundir / "image"
        if not place.exists():
            image = Image(busybox(), Entrypoint=["/bin/sh", "-c"], Cmd=["exit 9"])
            image.write(place, "directory")
        configuration = {"image": str(place), "command": [text]}
    words = {
        "id": "mine",
        "name": "mine",
        "functional-capability": "mine",
        "engine": kind,
        "function": "script" if kind == "native" else "image",
        "cores": 1,
        "memory-mb": 32,
        **more,
        "configuration": {**configuration, **more.get("configuration", {})},
    }
    file = rundir / "mine.yaml"
    file.write_text(yaml.safe_dump(words))
    return str(file)


@asynccontextmanager
async def node_with(
    start_node: StartNode, file: str | None, **settings: Any
) -> AsyncIterator[tuple[Node, httpx.AsyncClient]]:
    """A node with a template, or with those that it comes with, and a client of its API."""
    node = await start_node(switch="linux-bridge", oversubscribe=True, **settings)
    if file is not None:
        give_template(node, file)
    transport = httpx.ASGITransport(app=make_app(node))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", timeout=60
    ) as http:
        yield node, http


def chain(vnfs: int = 1, more: dict[str, Any] | None = None) -> graphs.Json:
    """A chain of `mine`; `more` is what the first one asks for."""
    graph = graphs.chain("mine", vnfs)
    graph["forwarding-graph"]["VNFs"][0].update(more or {})
    return graph


def log_of(node: Node) -> str:
    """What the VNF of a node with a single one has written."""
    return "".join(file.read_text() for file in log_directory(node.rundir).glob("vnf-*.log"))
