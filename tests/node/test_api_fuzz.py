# SPDX-License-Identifier: Apache-2.0
"""schemathesis over the whole API with login on: no 5xx, no hang, and what /openapi.json says.

It runs as a program against a node on the fake world that serves a port: once with values of its
own for everything, so that mostly nothing is found, and once on a graph, a template, a user and a
PCI function that are there, and are made again when a request has removed them.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher

from headrace.node.access import users as users_module
from headrace.node.access.lockout import Lockout
from headrace.node.access.users import User
from headrace.node.datastore.datastore import Held
from headrace.node.errors import AccessError
from tests.node.api import Api, api_of
from tests.node.crashing import FIRST
from tests.node.fake_sysfs import FakeSysfs
from tests.node.served import served

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance,response_headers_conformance"
)
RUN_S = 30
HANGS_S = 15.0
"""How long each of both runs goes on, and after what time a request counts as hanging."""

FUNCTION = "0000:03:00.0"
TEMPLATE_ID = "OWN001"
TEMPLATE = {"name": "own", "vnf-type": "kvm", "ports": [{"position": "0-1"}]}

NAMES = {
    "path.graph_id": "g",
    "path.vnf_id": "v0",
    "path.rule_id": "r0",
    "path.template_id": TEMPLATE_ID,
    "path.capability": "pass",
    "path.address": FUNCTION,
    "path.name": "ann",
    "query.vnf_id": TEMPLATE_ID,
}
"""What is there, by the names of parameters in the settings of schemathesis."""


class Site:
    """A node with something of everything in it."""

    def __init__(self, api: Api, token: str) -> None:
        self.api = api
        self.token = token

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        headers = {"x-auth-token": self.token}
        return await self.api.http.request(method, path, json=body, headers=headers)

    async def restore(self) -> None:
        """Makes again what is not there any more."""
        if (await self.ask("GET", "/NF-FG/g")).json() != FIRST:
            await self.ask("PUT", "/NF-FG/g", FIRST)
        users = self.api.node.users
        if "one" not in users.groups():
            users.add_group("one")
        if users.find("ann") is None:
            users.add(User("ann", "one"), "no hash")
        datastore = self.api.node.datastore
        if datastore.find(TEMPLATE_ID) is None:
            # By its own door, since the API would give it another id.
            datastore._put(Held(TEMPLATE_ID, TEMPLATE, "ann", "one", ""))
        # Wrong passwords are most of what is tried at /login.
        self.api.node.lockout = Lockout()


@asynccontextmanager
async def site_in(rundir: Path) -> AsyncIterator[Site]:
    async for api in api_of(rundir, rest={"login": True, "port": 0}, memory_mb=4096):
        sysfs = FakeSysfs(rundir / "sys")
        for driver in ("i40e", "vfio-pci"):
            sysfs.add_driver(driver)
        sysfs.add_function(FUNCTION, driver="i40e", interface="ens1", total_vfs=4)
        api.node.sysfs = sysfs
        api.node.users.add(User("root", "admin"), "no hash")
        site = Site(api, api.node.users.give_token("root"))
        await site.restore()
        yield site


async def run(site: Site, port: int, *options: str) -> str:
    """Runs schemathesis; its report if it has found something, else nothing."""
    command = [sys.executable, "-m", "schemathesis.cli", "run", *options]
    command += ["--header", f"X-Auth-Token: {site.token}", "--checks", CHECKS]
    command += ["--request-timeout", str(HANGS_S), "--max-time", str(RUN_S), "--seed", "1"]
    # The first one's answer has no end; the second says 503 of a node that has been paused.
    command += ["--exclude-path", "/events", "--exclude-path", "/ready"]
    command += ["--continue-on-failure", "--no-shrink", "--warnings", "off"]
    process = await asyncio.create_subprocess_exec(
        *command,
        f"http://127.0.0.1:{port}/openapi.json",
        cwd=site.api.node.rundir,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    finally:
        with suppress(ProcessLookupError):
            process.kill()
    return "" if process.returncode == 0 else output.decode(errors="replace")


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passwords that cost little, and an administrator who stays."""
    hasher = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    monkeypatch.setattr(users_module, "_HASHER", hasher)
    remove = users_module.Users.remove

    def remove_others(self: users_module.Users, name: str) -> None:
        if name == "root":
            raise AccessError(403, "the token of this test is root's")
        remove(self, name)

    monkeypatch.setattr(users_module.Users, "remove", remove_others)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("cheap")
async def test_values_of_its_own(rundir: Path) -> None:
    async with site_in(rundir) as site, served(site.api.node) as port:
        assert not (report := await run(site, port)), report
        await still_there(site)


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("cheap")
async def test_on_what_is_there(rundir: Path) -> None:
    async def gardener(site: Site) -> None:
        while True:
            await asyncio.sleep(0.2)
            await site.restore()

    async with site_in(rundir) as site, served(site.api.node) as port:
        lines = [f"{json.dumps(key)} = {json.dumps(value)}" for key, value in NAMES.items()]
        (rundir / "schemathesis.toml").write_text("\n".join(["[parameters]", *lines, ""]))
        restoring = asyncio.create_task(gardener(site))
        try:
            report = await run(site, port, "--phases", "coverage,fuzzing")
        finally:
            restoring.cancel()
            await asyncio.gather(restoring, return_exceptions=True)
        assert not report, report
        await still_there(site)


async def still_there(site: Site) -> None:
    """The node answers, and nothing is left half done."""
    for path in ("/node", "/metrics", "/users"):
        assert (await site.ask("GET", path)).status_code == 200, path
    for listed in (await site.ask("GET", "/NF-FG")).json()["NF-FG"]:
        status = (await site.ask("GET", f"/NF-FG/status/{listed['nffg-uuid']}")).json()
        assert status["status"] == "complete", status


@pytest.mark.timeout(300)
@pytest.mark.usefixtures("cheap")
async def test_a_fault_is_found(rundir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A route that fails for one kind of input, and one that answers what it does not say."""
    async with site_in(rundir) as site:

        def fails(name: str) -> None:
            raise ValueError(name)

        monkeypatch.setattr(site.api.node.users, "remove_group", fails)
        monkeypatch.setattr(site.api.node.datastore, "listed", lambda *_: [{"id": 1}])
        chosen = ("--phases", "coverage", "--include-path-regex", "^/groups|/nf_template$")
        async with served(site.api.node) as port:
            report = await run(site, port, *chosen)
    assert "Server error" in report and "DELETE /groups/{name}" in report, report
    assert "violates schema" in report and "GET /v2/nf_template" in report, report
