# SPDX-License-Identifier: Apache-2.0
"""Login with users, groups, permissions and quotas; what is refused, with which code."""

import json
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.machine.places import database, log_directory
from headrace.node.access import users as users_module
from tests.node.api import Api, api_of
from tests.node.crashing import FIRST
from tests.node.graphs import chain, port_to_port, shared

PASSWORD = "correct horse battery"


class Site:
    """A node with login, and users of it: ann and bob of group one, eve of group two, root."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.tokens: dict[str, str] = {}

    async def ask(self, who: str, method: str, path: str, body: Any = None) -> httpx.Response:
        headers = {"x-auth-token": self.tokens[who]} if who else {}
        return await self.api.http.request(method, path, json=body, headers=headers)

    async def log_in(self, name: str, password: str = PASSWORD) -> httpx.Response:
        body = {"username": name, "password": password}
        return await self.api.http.post("/login", json=body)


@pytest.fixture
async def site(rundir: Path) -> AsyncIterator[Site]:
    async for api in api_of(rundir, rest={"login": True}, memory_mb=4096):
        made = Site(api)
        for group in ("one", "two"):
            api.node.users.add_group(group)
        hashed = users_module.hash_of(PASSWORD)
        for name, group in (("ann", "one"), ("bob", "one"), ("eve", "two"), ("root", "admin")):
            quota = users_module.Quota(graphs=2) if name == "eve" else users_module.Quota()
            api.node.users.add(users_module.User(name, group, quota), hashed)
            answer = await made.log_in(name)
            assert answer.status_code == 200
            made.tokens[name] = answer.text
        yield made


async def test_login_as_the_original_has_it(site: Site) -> None:
    answer = await site.log_in("ann")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-cache")
    assert answer.headers["content-type"].startswith("text/plain")
    assert int(answer.text, 16) >= 0 and len(answer.text) == 64
    assert (await site.log_in("ann", "wrong")).status_code == 401
    assert (await site.log_in("nobody")).status_code == 401
    bodies: list[Any] = [{}, {"username": "ann"}, {"username": "a", "password": "x", "more": 1}, []]
    for body in bodies:
        assert (await site.api.http.post("/login", json=body)).status_code == 400


PATHS = (
    "/NF-FG",
    "/NF-FG/g",
    "/NF-FG/status/g",
    "/node",
    "/metrics",
    "/users",
    "/openapi.json",
    "/v2/x",
)


@pytest.mark.parametrize("path", PATHS)
async def test_no_path_but_login_without_a_token(site: Site, path: str) -> None:
    for token in (None, "", "f" * 64, "é"):
        headers = [] if token is None else [(b"x-auth-token", token.encode("latin-1"))]
        answer = await site.api.http.get(path, headers=headers)
        assert answer.status_code == 401, answer.text
        assert answer.json()["module"] == "access"


async def test_a_token_ends(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    assert (await site.ask("ann", "GET", "/node")).status_code == 200
    later = time.time() + users_module.TOKEN_VALID_S + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert (await site.ask("ann", "GET", "/node")).status_code == 401


async def test_a_graph_is_its_owners(site: Site) -> None:
    assert (await site.ask("ann", "PUT", "/NF-FG/g", FIRST)).status_code == 201
    expected = {"ann": (200, 202, 204), "bob": (200, 403, 403), "eve": (403, 403, 403)}
    for who in ("eve", "bob", "root", "ann"):
        read, update, delete = expected.get(who, (200, 202, 204))
        for path in (
            "/NF-FG/g",
            "/NF-FG/status/g",
            "/node/vnfs/g/v0/counters",
            "/node/vnfs/g/v0/log",
        ):
            assert (await site.ask(who, "GET", path)).status_code == read, (who, path)
        listed = (await site.ask(who, "GET", "/NF-FG")).json()["NF-FG"]
        assert len(listed) == (1 if read == 200 else 0), who
        assert (await site.ask(who, "PUT", "/NF-FG/g", FIRST)).status_code == update, who
        if who != "root":
            assert (await site.ask(who, "DELETE", "/NF-FG/g/r0")).status_code == delete, who
            assert (await site.ask(who, "DELETE", "/NF-FG/g")).status_code == delete, who
    # Its name is free again, for everybody.
    assert (await site.ask("eve", "PUT", "/NF-FG/g", FIRST)).status_code == 201
    assert (await site.ask("ann", "GET", "/NF-FG/g")).status_code == 403


async def test_what_administrators_alone_may(site: Site) -> None:
    user = {"password": PASSWORD, "group": "two", "max_graphs": 1}
    paused = {"paused": False}
    requests: list[tuple[str, str, Any, int]] = [
        ("GET", "/users", None, 200),
        ("GET", "/users/ann", None, 200),
        ("POST", "/users/new", user, 202),
        ("POST", "/users/new", user, 401),
        ("POST", "/users/newer", {**user, "group": "none"}, 401),
        ("POST", "/users/newer", {**user, "more": 1}, 400),
        ("POST", "/users/a b", user, 400),
        ("DELETE", "/groups/two", None, 403),
        ("DELETE", "/users/new", None, 204),
        ("DELETE", "/users/new", None, 404),
        ("GET", "/groups", None, 200),
        ("PUT", "/groups/three", None, 201),
        ("PUT", "/groups/three", None, 403),
        ("DELETE", "/groups/three", None, 202),
        ("DELETE", "/groups/admin", None, 403),
        ("PUT", "/node/paused", paused, 200),
        ("PUT", "/node/pci/ffff:ff:1f.7/driver", {"driver": None}, 404),
    ]
    for method, path, body, code in requests:
        assert (await site.ask("ann", method, path, body)).status_code == 403, (method, path)
        answer = await site.ask("root", method, path, body)
        assert answer.status_code == code, (method, path, answer.text)
    assert "argon2" not in (await site.ask("root", "GET", "/users/ann")).text


async def test_a_removed_user_is_out(site: Site) -> None:
    assert (await site.ask("root", "DELETE", "/users/bob")).status_code == 204
    assert (await site.ask("bob", "GET", "/node")).status_code == 401
    assert (await site.log_in("bob")).status_code == 401


async def test_quotas(site: Site) -> None:
    one = shared(port_to_port())
    del one["forwarding-graph"]["big-switch"]["flow-rules"][:]
    with_a_vnf = shared(chain("pass", 1))
    for number in range(2):
        assert (await site.ask("eve", "PUT", f"/NF-FG/g{number}", one)).status_code == 201
    refused = await site.ask("eve", "PUT", "/NF-FG/g2", one)
    assert refused.status_code == 403 and "would have 3 graphs, the quota is 2" in refused.text
    assert (await site.ask("eve", "POST", "/NF-FG", one)).status_code == 403
    assert (await site.ask("eve", "PUT", "/NF-FG/g1", one)).status_code == 202
    for limits, what in (({"max_cores": 0}, "1 cores"), ({"max_memory_mb": 63}, "64 MB of memory")):
        name = next(iter(limits)).replace("_", "-")
        user = {"password": PASSWORD, "group": "two", **limits}
        assert (await site.ask("root", "POST", f"/users/{name}", user)).status_code == 202
        site.tokens[name] = (await site.log_in(name)).text
        refused = await site.ask(name, "PUT", f"/NF-FG/of-{name}", with_a_vnf)
        assert refused.status_code == 403 and what in refused.text
    assert (await site.ask("ann", "PUT", "/NF-FG/of-ann", with_a_vnf)).status_code == 201


async def test_changes_and_refusals_are_in_the_audit_log(site: Site, rundir: Path) -> None:
    await site.ask("ann", "PUT", "/NF-FG/g", FIRST)
    await site.ask("ann", "GET", "/NF-FG/g")
    await site.ask("eve", "GET", "/NF-FG/g")
    await site.ask("", "DELETE", "/NF-FG/g")
    file = log_directory(rundir) / "audit.log"
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    seen = [(line["user"], line["method"], line["path"], line["status"]) for line in lines]
    assert seen[-3:] == [
        ("ann", "PUT", "/NF-FG/g", 201),
        ("eve", "GET", "/NF-FG/g", 403),
        ("-", "DELETE", "/NF-FG/g", 401),
    ]
    assert all(line["from"] == "127.0.0.1" for line in lines)
    assert file.stat().st_mode & 0o777 == 0o600
    assert PASSWORD not in file.read_text()


async def test_the_database_has_neither_passwords_nor_tokens(site: Site, rundir: Path) -> None:
    stored = b"".join(path.read_bytes() for path in database(rundir).parent.glob("node.sqlite*"))
    assert b"$argon2id$" in stored
    for secret in (PASSWORD, *site.tokens.values()):
        assert secret.encode() not in stored


async def test_the_unix_socket_needs_no_token(site: Site) -> None:
    """Only a request through it has no address at either end (uvicorn); a header says nothing."""
    answer = await site.api.http.get("/node", headers={"x-forwarded-for": "unix"})
    assert answer.status_code == 401


async def test_without_login_there_are_no_users(api: Api) -> None:
    for method, path in (
        ("POST", "/login"),
        ("GET", "/users"),
        ("POST", "/users/x"),
        ("PUT", "/groups/x"),
    ):
        body = {"username": "a", "password": "b"}
        assert (await api.http.request(method, path, json=body)).status_code == 501
    assert (await api("PUT", "/NF-FG/g", FIRST)).status_code == 201


async def test_commands_in_vnfs_need_a_right_of_their_own(site: Site) -> None:
    body = {"password": PASSWORD, "group": "one", "may_exec": True}
    assert (await site.ask("root", "POST", "/users/amy", body)).status_code == 202
    assert (await site.ask("root", "GET", "/users/amy")).json()["may_exec"] is True
    site.tokens["amy"] = (await site.log_in("amy")).text
    for owner, graph in (("ann", "a"), ("amy", "b")):
        document = shared(chain("pass", 1))
        document["forwarding-graph"]["big-switch"]["flow-rules"] = []
        assert (await site.ask(owner, "PUT", f"/NF-FG/{graph}", document)).status_code == 201
    words = {"command": ["cat", "/etc/motd"], "stdin": "x"}
    said = {"exit_code": 3, "stdout": "v0 cat /etc/motd", "stderr": "x", "truncated": False}
    for who, graph, code in (
        ("ann", "a", 403),  # the owner, without the right
        ("ann", "b", 403),
        ("bob", "b", 403),
        ("eve", "b", 403),
        ("amy", "a", 403),  # the right, but another's graph
        ("amy", "b", 200),
        ("root", "a", 200),
        ("root", "b", 200),
    ):
        answer = await site.ask(who, "POST", f"/node/vnfs/{graph}/v0/exec", words)
        assert answer.status_code == code, (who, graph, answer.text)
        assert code != 200 or answer.json() == said
    log = (log_directory(site.api.node.rundir) / "audit.log").read_text().splitlines()
    lines = [json.loads(line) for line in log]
    noted = [(line["user"], line["graph"], line["exec"]) for line in lines if "exec" in line]
    command = words["command"]
    assert noted == [("amy", "b", command), ("root", "a", command), ("root", "b", command)]
    refused = [line["user"] for line in lines if line.get("status") == 403]
    assert refused == ["ann", "ann", "bob", "eve", "amy"]


async def test_a_wrong_command_is_refused(site: Site) -> None:
    assert (await site.ask("root", "PUT", "/NF-FG/g", chain("pass", 1))).status_code == 201
    bodies: list[tuple[str, Any, int]] = [
        ("g/v0", {}, 400),
        ("g/v0", {"command": []}, 400),
        ("g/v0", {"command": "ls"}, 400),
        ("g/v0", {"command": ["ls"], "timeout_s": 0}, 400),
        ("g/v0", {"command": ["ls"], "user": "root"}, 400),
        ("g/v0", {"command": ["l\0s"]}, 400),
        ("g/nobody", {"command": ["ls"]}, 404),
        ("nothing/v0", {"command": ["ls"]}, 404),
    ]
    for path, body, code in bodies:
        answer = await site.ask("root", "POST", f"/node/vnfs/{path}/exec", body)
        assert answer.status_code == code, answer.text
    site.api.world.change("kill", lambda held: held["vnfs"].clear())
    answer = await site.ask("root", "POST", "/node/vnfs/g/v0/exec", {"command": ["ls"]})
    assert answer.status_code == 409 and "does not run" in answer.json()["message"]
