# SPDX-License-Identifier: Apache-2.0
"""The recorded requests of the original's clients, over sockets, with login off and on.

What runs below the API is the fake world: here it is about paths, codes, headers and bodies.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from headrace.node.access.users import Quota, User, hash_of
from tests.node.api import api_of
from tests.node.served import served
from tests.originals.clients import (
    CREDENTIALS,
    FROG,
    FROG_STALE,
    GUI,
    GUI_USERS,
    LOGIN,
    NO_LOGIN,
    OPENBATON,
    VIRTUALIZER,
    Request,
    logging_in,
)
from tests.originals.samples import SAMPLES


def templates(directory: Path) -> str:
    """What the samples ask for by name, as the operator of a node would provide it."""
    folder = directory / "templates"
    folder.mkdir(exist_ok=True)
    names = {
        str(vnf.get(key))
        for sample in SAMPLES
        for vnf in sample.graph["forwarding-graph"].get("VNFs", [])
        for key in ("vnf_template", "functional-capability", "functional_capability", "name")
        if vnf.get(key)
    }
    for number, name in enumerate(sorted(names)):
        words = {
            "id": name if " " not in name else f"t{number}",
            "name": name,
            "functional-capability": name,
            "engine": "process",
            "function": "bridge",
            "cores": 1,
            "memory-mb": 1,
            "ports": {"min": 1, "max": 8},
        }
        (folder / f"{number}.yaml").write_text(yaml.safe_dump(words))
    return str(folder)


@asynccontextmanager
async def node(rundir: Path, **rest: Any) -> AsyncIterator[str]:
    """The URL of a served node that can make what the samples ask for."""
    settings: dict[str, Any] = {
        "rest": {"port": 0, **rest},
        "templates": [templates(rundir)],
        "host_stack": {"networks": ["192.168.40.0/24"]},
        "memory_mb": 4096,
    }
    async for api in api_of(rundir, **settings):
        if rest.get("login"):
            name, password = CREDENTIALS["username"], CREDENTIALS["password"]
            api.node.users.add(User(name, "admin", Quota()), hash_of(password))
        async with served(api.node) as port:
            yield f"http://127.0.0.1:{port}"


def _read(answer: httpx.Response, gives: dict[str, Any]) -> None:
    content = answer.json() if gives else {}
    for key, wanted in gives.items():
        if isinstance(wanted, type):
            assert isinstance(content[key], wanted), (key, content)
        else:
            assert content[key] == wanted, (key, content)


async def play(url: str, requests: list[Request]) -> list[httpx.Response]:
    """Sends a client's requests, one after the other; every code must be one that it takes."""
    known = {"graph": "", "token": ""}
    answers = []
    async with httpx.AsyncClient(base_url=url, timeout=60) as http:
        for request in requests:
            headers = {key: value.format(**known) for key, value in request.headers.items()}
            content = None if request.body is None else json.dumps(request.body).encode()
            answer = await http.request(
                request.method, request.path.format(**known), content=content, headers=headers
            )
            assert answer.status_code in request.codes, (request, answer.text)
            _read(answer, request.gives)
            if request.path == "/login" and answer.status_code == 200:
                known["token"] = answer.text  # the whole text, as it is
            elif request.method == "POST" and answer.status_code == 201:
                known["graph"] = answer.json()["nffg-uuid"]
            answers.append(answer)
    return answers


CLIENTS = {"frog": FROG, "gui": GUI, "openbaton": logging_in(OPENBATON, NO_LOGIN)}


@pytest.mark.parametrize("client", CLIENTS)
async def test_without_login(rundir: Path, client: str) -> None:
    async with node(rundir) as url:
        await play(url, CLIENTS[client])


WITH_LOGIN = {
    "frog": [LOGIN, *FROG],
    "frog with a stale token": FROG_STALE,
    "gui": [LOGIN, *GUI],
    "gui's users": [LOGIN, *GUI_USERS],
    "openbaton": logging_in(OPENBATON, LOGIN),
}


@pytest.mark.parametrize("client", WITH_LOGIN)
async def test_with_login(rundir: Path, client: str) -> None:
    async with node(rundir, login=True) as url:
        answers = await play(url, WITH_LOGIN[client])
        token = next(a for a in answers if a.url.path == "/login")
        assert token.text.strip() == token.text and '"' not in token.text
        refused = LOGIN.__class__("GET", "/NF-FG", (401,))
        await play(url, [refused])


async def test_the_virtualizer(rundir: Path) -> None:
    async with node(rundir, legacy=True) as url:
        await play(url, VIRTUALIZER)


async def test_every_sample_is_taken_and_given_back(rundir: Path) -> None:
    """By POST, as its own words ask for VNFs; what GET returns can be sent again as it is.

    Those with the host's own interfaces need a real switch (test_samples.py).
    """
    async with node(rundir) as url, httpx.AsyncClient(base_url=url, timeout=60) as http:
        for sample in (sample for sample in SAMPLES if sample.wire):
            made = await http.post("/NF-FG", json=sample.graph)
            assert made.status_code == 201, (sample.name, made.text)
            name = made.json()["nffg-uuid"]
            given = await http.get(f"/NF-FG/{name}")
            assert given.json() == sample.graph, sample.name
            status = (await http.get(f"/NF-FG/status/{name}")).json()
            assert status["status"] == "complete", sample.name
            assert len(status["vnfs"]) == len(sample.vnfs), sample.name
            again = await http.put(f"/NF-FG/{name}", json=given.json())
            assert again.status_code == 202, (sample.name, again.text)
            assert (await http.delete(f"/NF-FG/{name}")).status_code == 204, sample.name
