# SPDX-License-Identifier: Apache-2.0
"""A client of a node on the fake world, without a socket in between."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx

from headrace.node.config import from_dict
from headrace.node.node import Node
from headrace.node.rest.app import make_app
from tests.node.crashing import SETTINGS
from tests.node.fakes import FakeDriver, FakeEngine, World


class Api:
    """A client of a node on the fake world."""

    def __init__(self, node: Node, world: World, http: httpx.AsyncClient) -> None:
        self.node, self.world, self.http = node, world, http

    async def __call__(self, method: str, path: str, body: Any = None) -> httpx.Response:
        content = body if isinstance(body, bytes) else json.dumps(body).encode() if body else None
        headers = {"content-type": "application/json"}
        return await self.http.request(method, path, content=content, headers=headers)


async def api_of(rundir: Path, **more: Any) -> AsyncIterator[Api]:
    world = World(rundir / "world.json")
    config = from_dict({**SETTINGS, **more})
    node = Node(config, rundir, FakeDriver(world), {"process": FakeEngine(world)})
    await node.start()
    transport = httpx.ASGITransport(app=make_app(node))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        yield Api(node, world, http)
    await node.close()
