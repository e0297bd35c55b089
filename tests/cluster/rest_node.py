# SPDX-License-Identifier: Apache-2.0
"""A node's REST API in process, for a transport of httpx: it parses graphs as a node does."""

import json
import urllib.parse
from typing import Any

import httpx

from headrace.node.errors import GraphRefused
from headrace.node.planning.nffg import parse

TOKEN = "t0k3n"


class RestNode:
    """A node's REST API, as far as the controller uses it."""

    def __init__(self) -> None:
        self.alive, self.stuck, self.token, self.logins = True, False, TOKEN, 0
        self.graphs: dict[str, Any] = {}
        self.fault = ""
        self.requests: list[tuple[str, str]] = []

    def answer(self, request: httpx.Request) -> httpx.Response:
        if not self.alive:
            raise httpx.ConnectError("no route to host")
        path = urllib.parse.unquote(request.url.path)
        self.requests.append((request.method, path))
        if path == "/ready":
            return httpx.Response(200, json={"ready": True})
        if path == "/login":
            self.logins += 1
            if json.loads(request.content) != {"username": "ann", "password": "pw"}:
                return httpx.Response(401, json={"message": "wrong user or password"})
            return httpx.Response(200, text=self.token)
        if request.headers.get("X-Auth-Token") != self.token:
            return httpx.Response(401, json={"message": "log in"})
        if path == "/NF-FG":
            listed = [{"nffg-uuid": name, **graph} for name, graph in self.graphs.items()]
            return httpx.Response(200, json={"NF-FG": listed})
        if path == "/node/graphs":
            brief = [
                {"id": name, "status": "error" if self.fault else "complete", "message": self.fault}
                for name in self.graphs
            ]
            return httpx.Response(200, json=brief)
        name = path.removeprefix("/NF-FG/")
        if self.stuck:
            return httpx.Response(500, json={"message": "the switch does not answer"})
        if request.method == "DELETE":
            found = self.graphs.pop(name, None)
            return httpx.Response(404 if found is None else 204, json={"message": "none"})
        document = json.loads(request.content)
        try:
            parse(document)
        except GraphRefused as error:
            return httpx.Response(400, json={"message": str(error)})
        known = name in self.graphs
        self.graphs[name] = document
        return httpx.Response(202 if known else 201)
