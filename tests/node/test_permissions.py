# SPDX-License-Identifier: Apache-2.0
"""What each route of the API demands: nobody gets by it with less, and everybody with just that.

The table below has an entry for every route of the app. A new route without one fails the test.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from enum import Enum, auto
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.routing import iter_route_contexts

from headrace.node.access.users import User, hash_of
from headrace.node.rest.app import make_app
from tests.node.api import api_of
from tests.node.crashing import FIRST
from tests.node.fake_sysfs import FakeSysfs
from tests.node.graphs import chain, document

PASSWORD = "correct horse battery"
GRAPH, TEMPLATE, UPLOAD = "g", "{template}", "{upload}"
WIRE = {"name": "own", "vnf-type": "kvm", "ports": [{"position": "0-1"}]}


class Needs(Enum):
    """What a request needs besides a token; `NOTHING` not even that."""

    NOTHING = auto()
    TOKEN = auto()
    ADMIN = auto()
    READ = auto()  # of the graph: its owner and the owner's group
    CHANGE = auto()  # of the graph: its owner
    EXEC = auto()  # of the graph: its owner, who may run commands besides
    OWN_TEMPLATE = auto()
    OWN_UPLOAD = auto()


HAS = {
    Needs.NOTHING: "nobody",
    Needs.TOKEN: "eve",
    Needs.ADMIN: "root",
    Needs.READ: "bob",
    Needs.CHANGE: "ann",
    Needs.EXEC: "ann",
    Needs.OWN_TEMPLATE: "ann",
    Needs.OWN_UPLOAD: "ann",
}
"""Who has just that: ann's are the graph, the template and the upload, bob is of ann's group."""

HAS_NOT = {
    Needs.ADMIN: ("ann", "eve"),
    Needs.READ: ("eve",),
    Needs.CHANGE: ("bob", "eve"),
    Needs.EXEC: ("bob", "eve"),
    Needs.OWN_TEMPLATE: ("bob", "eve"),
    Needs.OWN_UPLOAD: ("bob", "eve"),
}


@dataclass(frozen=True)
class Entry:
    """What a route needs, and a request that would do something; `refusal` is the code without."""

    needs: Needs
    path: str = ""
    body: Any = None
    refusal: int = 403
    headers: dict[str, str] = field(default_factory=dict)


OCTETS = {"content-type": "application/octet-stream"}
USER = {"password": PASSWORD, "group": "two"}
OF_GRAPH = f"/NF-FG/{GRAPH}"
OF_VNF = f"/node/vnfs/{GRAPH}/v0"
NO_FUNCTION = "/node/pci/0000:00:00.0"

TABLE: dict[tuple[str, str], Entry] = {
    ("GET", "/openapi.json"): Entry(Needs.TOKEN),
    ("GET", "/docs"): Entry(Needs.NOTHING),
    ("GET", "/docs/{name}"): Entry(Needs.NOTHING, "/docs/start.js"),
    ("GET", "/"): Entry(Needs.NOTHING),
    ("GET", "/health"): Entry(Needs.NOTHING),
    ("GET", "/ready"): Entry(Needs.NOTHING),
    ("GET", "/ui/{path:path}"): Entry(Needs.NOTHING, "/ui/main.js"),
    ("POST", "/login"): Entry(Needs.NOTHING, body={"username": "ann", "password": PASSWORD}),
    ("POST", "/NF-FG"): Entry(Needs.TOKEN, body=document([], [])),
    ("GET", "/NF-FG"): Entry(Needs.TOKEN),
    ("GET", "/NF-FG/{graph_id}"): Entry(Needs.READ, OF_GRAPH),
    ("PUT", "/NF-FG/{graph_id}"): Entry(Needs.CHANGE, OF_GRAPH, chain("pass", 1)),
    ("DELETE", "/NF-FG/{graph_id}"): Entry(Needs.CHANGE, OF_GRAPH),
    ("GET", "/NF-FG/status/{graph_id}"): Entry(Needs.READ, f"/NF-FG/status/{GRAPH}"),
    ("GET", "/NF-FG/{graph_id}/statistics"): Entry(Needs.READ, f"{OF_GRAPH}/statistics"),
    ("GET", "/NF-FG/{graph_id}/prediction"): Entry(Needs.READ, f"{OF_GRAPH}/prediction?seconds=0"),
    ("GET", "/NF-FG/{graph_id}/wiring"): Entry(Needs.READ, f"{OF_GRAPH}/wiring"),
    ("GET", "/node/graphs"): Entry(Needs.TOKEN),
    ("GET", "/node/model"): Entry(Needs.TOKEN),
    ("DELETE", "/NF-FG/{graph_id}/{rule_id}"): Entry(Needs.CHANGE, f"{OF_GRAPH}/r0"),
    ("GET", "/v2/nf_template"): Entry(Needs.TOKEN),
    ("PUT", "/v2/nf_template"): Entry(Needs.TOKEN, body=WIRE),
    ("GET", "/v2/nf_template/{template_id}"): Entry(Needs.TOKEN, f"/v2/nf_template/{TEMPLATE}"),
    ("PUT", "/v2/nf_template/{template_id}"): Entry(
        Needs.OWN_TEMPLATE, f"/v2/nf_template/{TEMPLATE}", WIRE
    ),
    ("DELETE", "/v2/nf_template/{template_id}"): Entry(
        Needs.OWN_TEMPLATE, f"/v2/nf_template/{TEMPLATE}"
    ),
    ("GET", "/v2/nf_capability/{capability}"): Entry(Needs.TOKEN, "/v2/nf_capability/pass"),
    ("GET", "/v2/nf_image"): Entry(Needs.TOKEN),
    ("GET", "/v2/nf_image/{template_id}"): Entry(Needs.TOKEN, f"/v2/nf_image/{TEMPLATE}"),
    ("PUT", "/v2/nf_image/{template_id}"): Entry(
        Needs.OWN_TEMPLATE, f"/v2/nf_image/{TEMPLATE}", b"no image", headers=OCTETS
    ),
    ("DELETE", "/v2/nf_image/{template_id}"): Entry(Needs.OWN_TEMPLATE, f"/v2/nf_image/{TEMPLATE}"),
    ("POST", "/v2/nf_image/chunked_upload"): Entry(
        Needs.OWN_TEMPLATE, f"/v2/nf_image/chunked_upload?vnf_id={TEMPLATE}", b"x", headers=OCTETS
    ),
    # Whose an upload is nobody else is told, nor that there is one.
    ("POST", "/v2/nf_image/chunked_upload_complete"): Entry(
        Needs.OWN_UPLOAD, body={"upload_id": UPLOAD, "md5": "0" * 32}, refusal=404
    ),
    ("GET", "/conf"): Entry(Needs.TOKEN),
    ("GET", "/nfs"): Entry(Needs.TOKEN),
    ("GET", "/nfs/digest"): Entry(Needs.TOKEN),
    ("GET", "/nfs/{capability}"): Entry(Needs.TOKEN, "/nfs/pass"),
    ("GET", "/node"): Entry(Needs.TOKEN),
    ("GET", "/node/resources"): Entry(Needs.TOKEN),
    ("GET", "/node/ports"): Entry(Needs.TOKEN),
    ("GET", "/node/switch/cycles"): Entry(Needs.TOKEN),
    ("GET", "/node/switch/ports"): Entry(Needs.TOKEN),
    ("GET", "/node/vnfs/{graph_id}/{vnf_id}/cycles"): Entry(Needs.READ, f"{OF_VNF}/cycles"),
    ("GET", "/node/vnfs/{graph_id}/{vnf_id}/counters"): Entry(Needs.READ, f"{OF_VNF}/counters"),
    ("GET", "/node/vnfs/{graph_id}/{vnf_id}/log"): Entry(Needs.READ, f"{OF_VNF}/log"),
    ("GET", "/node/vnfs/{graph_id}/{vnf_id}/console"): Entry(Needs.READ, f"{OF_VNF}/console"),
    ("POST", "/node/vnfs/{graph_id}/{vnf_id}/exec"): Entry(
        Needs.EXEC, f"{OF_VNF}/exec", {"command": ["true"]}
    ),
    ("PUT", "/node/paused"): Entry(Needs.ADMIN, body={"paused": False}),
    ("GET", "/metrics"): Entry(Needs.TOKEN),
    ("PUT", "/node/ports/{name}"): Entry(
        Needs.ADMIN, "/node/ports/pod0", {"kind": "memif", "owner": "sandbox"}
    ),
    ("DELETE", "/node/ports/{name}"): Entry(Needs.ADMIN, "/node/ports/none"),
    ("GET", "/node/reservations"): Entry(Needs.TOKEN),
    ("PUT", "/node/reservations/{name}"): Entry(
        Needs.ADMIN, "/node/reservations/pod", {"memory_mb": 1}
    ),
    ("DELETE", "/node/reservations/{name}"): Entry(Needs.ADMIN, "/node/reservations/none"),
    ("GET", "/node/pci"): Entry(Needs.TOKEN),
    ("PUT", "/node/pci/{address}/driver"): Entry(
        Needs.ADMIN, f"{NO_FUNCTION}/driver", {"driver": None}
    ),
    ("PUT", "/node/pci/{address}/virtual-functions"): Entry(
        Needs.ADMIN, f"{NO_FUNCTION}/virtual-functions", {"count": 0}
    ),
    ("PUT", "/node/pci/{address}/settings"): Entry(Needs.ADMIN, f"{NO_FUNCTION}/settings", {}),
    ("GET", "/events"): Entry(Needs.TOKEN),
    ("GET", "/domain-information"): Entry(Needs.TOKEN),
    ("GET", "/users"): Entry(Needs.ADMIN),
    ("GET", "/users/{name}"): Entry(Needs.ADMIN, "/users/ann"),
    ("POST", "/users/{name}"): Entry(Needs.ADMIN, "/users/new", USER),
    ("DELETE", "/users/{name}"): Entry(Needs.ADMIN, "/users/bob"),
    ("GET", "/groups"): Entry(Needs.ADMIN),
    ("PUT", "/groups/{name}"): Entry(Needs.ADMIN, "/groups/new"),
    ("DELETE", "/groups/{name}"): Entry(Needs.ADMIN, "/groups/empty"),
}

HASHED = hash_of(PASSWORD)


class Site:
    """A node with login and something of ann's in it: a graph, a template and an upload."""

    def __init__(
        self, http: httpx.AsyncClient, tokens: dict[str, str], end_streams: Callable[[], None]
    ) -> None:
        self.http, self.tokens, self.end_streams = http, tokens, end_streams
        self.names: dict[str, str] = {}

    async def ask(self, who: str, method: str, template: str, entry: Entry) -> httpx.Response:
        """Makes the request of an entry; `nobody` has no token."""
        token = self.tokens.get(who)
        body, path = entry.body, entry.path or template
        for name, value in self.names.items():
            path = path.replace(name, value)
        content = body
        if body is not None and not isinstance(body, bytes):
            content = json.dumps(body).replace(UPLOAD, self.names.get(UPLOAD, "")).encode()
        headers = {"content-type": "application/json", **entry.headers} if body is not None else {}
        if token is not None:
            headers["x-auth-token"] = token
        return await self.http.request(method, path, content=content, headers=headers)


@asynccontextmanager
async def site_in(rundir: Path) -> AsyncIterator[Site]:
    async for api in api_of(rundir, rest={"login": True}):
        api.node.sysfs = FakeSysfs(rundir / "sys")
        users = api.node.users
        for group in ("one", "two", "empty"):
            users.add_group(group)
        tokens = {}
        for name, group in (("ann", "one"), ("bob", "one"), ("eve", "two"), ("root", "admin")):
            users.add(User(name, group, may_exec=name in ("ann", "eve")), HASHED)
            tokens[name] = users.give_token(name)
        made = Site(api.http, tokens, api.node.events.close)
        answer = await made.ask("ann", "PUT", OF_GRAPH, Entry(Needs.TOKEN, body=FIRST))
        assert answer.status_code == 201, answer.text
        answer = await made.ask("ann", "PUT", "/v2/nf_template", Entry(Needs.TOKEN, body=WIRE))
        made.names[TEMPLATE] = answer.text
        path = "/v2/nf_image/chunked_upload"
        answer = await made.ask("ann", "POST", path, TABLE["POST", path])
        made.names[UPLOAD] = answer.json()["upload_id"]
        yield made


def routes(node: Any) -> Iterator[tuple[str, str]]:
    """Every method and path of the app."""
    for route in iter_route_contexts(make_app(node).routes):
        # A mount has no methods: say here how its permission is tested.
        assert route.path is not None, route
        if route.path == "/events" and not route.methods:
            continue  # by WebSocket: tests/node/test_websocket.py
        assert route.methods is not None, route
        for method in route.methods:
            if method != "HEAD" or "GET" not in route.methods:
                yield method, route.path


async def test_every_route_has_an_entry(rundir: Path) -> None:
    async for api in api_of(rundir):
        found = set(routes(api.node))
        assert found - set(TABLE) == set(), "routes without an entry in TABLE"
        assert set(TABLE) - found == set(), "entries without a route"


@pytest.mark.parametrize(("route", "entry"), TABLE.items(), ids=[" ".join(key) for key in TABLE])
async def test_just_what_it_needs(route: tuple[str, str], entry: Entry, rundir: Path) -> None:
    async with site_in(rundir) as site:
        if entry.needs is not Needs.NOTHING:
            refused = await site.ask("nobody", *route, entry)
            assert refused.status_code == 401, refused.text
            assert refused.json()["module"] == "access"
        for who in HAS_NOT.get(entry.needs, ()):
            refused = await site.ask(who, *route, entry)
            assert refused.status_code == entry.refusal, (who, refused.text)
        # An answer without an end is read until the node says so.
        asyncio.get_running_loop().call_later(0.3, site.end_streams)
        allowed = await site.ask(HAS[entry.needs], *route, entry)
        assert allowed.status_code not in (401, 403, 405, 501), allowed.text
        assert allowed.status_code < 500, allowed.text


async def test_an_owner_needs_the_right_to_run_commands(rundir: Path) -> None:
    entry = TABLE["POST", "/node/vnfs/{graph_id}/{vnf_id}/exec"]
    async with site_in(rundir) as site:
        made = await site.ask("bob", "PUT", "/NF-FG/bob", Entry(Needs.TOKEN, body=document([], [])))
        assert made.status_code == 201, made.text
        own = Entry(entry.needs, "/node/vnfs/bob/v0/exec", entry.body)
        assert (await site.ask("bob", "POST", "", own)).status_code == 403


async def test_what_is_in_a_graph_is_not_told(rundir: Path) -> None:
    """Who may not read a graph learns nothing of it by what is refused, and has nothing checked."""
    paths = (f"/node/vnfs/{GRAPH}/none/{what}" for what in ("cycles", "counters", "log", "console"))
    entry, wrong = Entry(Needs.READ), Entry(Needs.CHANGE, body={"forwarding-graph": 1})
    async with site_in(rundir) as site:
        run = Entry(Needs.EXEC, f"/node/vnfs/{GRAPH}/none/exec", {"command": ["true"]})
        assert (await site.ask("eve", "POST", "", run)).status_code == 403
        for path in paths:
            assert (await site.ask("eve", "GET", path, entry)).status_code == 403, path
            assert (await site.ask("bob", "GET", path, entry)).status_code == 404, path
        assert (await site.ask("eve", "PUT", OF_GRAPH, wrong)).status_code == 403
        assert (await site.ask("ann", "PUT", OF_GRAPH, wrong)).status_code == 400


async def test_lists_have_what_one_may_read(rundir: Path) -> None:
    async with site_in(rundir) as site:
        for path, mark in (
            ("/NF-FG", f'"{GRAPH}"'),
            ("/node/graphs", f'"{GRAPH}"'),
            ("/metrics", f'graph="{GRAPH}"'),
        ):
            answers = await asyncio.gather(
                *(site.ask(who, "GET", path, Entry(Needs.TOKEN)) for who in ("bob", "eve", "root"))
            )
            assert [mark in answer.text for answer in answers] == [True, False, True], path
