# SPDX-License-Identifier: Apache-2.0
"""Events: what is told to whom, again after an absence, and to an orchestrator."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from headrace.node.access.users import User
from headrace.node.config import OrchestratorConfig, from_dict
from headrace.node.domain import Announcer
from headrace.node.errors import ConfigError
from headrace.node.events import EventKind, Events, TooManyListeners
from headrace.node.rest.events import _may_see
from headrace.node.restarts import Restarter
from headrace.switches.base import SwitchError
from tests.node import graphs
from tests.node.api import Api, api_of


async def collected(events: Events, after: int | None = None) -> list[str]:
    """The kinds of all events until they are closed."""
    return [event.kind.value async for event in events.listen(after)]


@asynccontextmanager
async def heard(api: Api) -> AsyncIterator[list[dict[str, object]]]:
    """The data of the events that /events gives; complete when the block has ended."""
    found: list[dict[str, object]] = []
    request = asyncio.create_task(api("GET", "/events"))
    deadline = asyncio.get_running_loop().time() + 20
    while not api.node.events._listeners:
        assert asyncio.get_running_loop().time() < deadline
        await asyncio.sleep(0.01)
    yield found
    api.node.events.close()
    answer = await request
    assert answer.headers["content-type"].startswith("text/event-stream")
    for block in answer.text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if line[:1] != ":")
        if fields:
            data = json.loads(fields["data"])
            assert data["event"] == fields["event"] and fields["id"].isdigit()
            found.append(data)


async def test_the_life_of_a_graph(api: Api) -> None:
    async with heard(api) as found:
        await api("PUT", "/NF-FG/g", graphs.chain("pass", 1))
        await api("PUT", "/NF-FG/g", graphs.chain("pass", 2))
        await api("DELETE", "/NF-FG/g")
    kinds = [(data["event"], data["graph"]) for data in found]
    assert kinds == [("graph-deployed", "g"), ("graph-updated", "g"), ("graph-deleted", "g")]


async def test_failures_say_why(api: Api) -> None:
    def fail(what: str, number: int) -> None:
        if what.startswith("start"):
            raise SwitchError("no room")

    async with heard(api) as found:
        api.world._before = fail
        assert (await api("PUT", "/NF-FG/g", graphs.chain("pass", 1))).status_code == 500
    assert [(d["event"], d["graph"], d["message"]) for d in found] == [
        ("graph-failed", "g", "no room")
    ]


async def test_what_goes_by_itself(api: Api) -> None:
    await api("PUT", "/NF-FG/g", graphs.chain("pass", 1))
    restarter = Restarter(api.node)
    await restarter.look()
    async with heard(api) as found:
        api.world.change("its end", lambda held: held["vnfs"].clear())
        api.world.change("a cable", lambda held: held.update(down=["p0", "g1p0"]))
        await restarter.look()
        api.world.change("a cable", lambda held: held.update(down=["p0"]))
        await restarter.look()
    told = [(d["event"], d.get("graph"), d.get("port") or d.get("vnf")) for d in found]
    assert sorted(told[:2], key=str) == [
        ("link-down", "g", "vnf:v0:port:0"),
        ("link-down", None, "p0"),
    ]
    assert told[2:] == [("vnf-restarted", "g", "v0"), ("link-up", "g", "vnf:v0:port:0")]


async def test_nobody_misses_what_is_kept() -> None:
    events = Events()
    for graph in "abc":
        events.publish(EventKind.GRAPH_DEPLOYED, graph)
    first = next(iter(events._kept)).number
    late = asyncio.create_task(collected(events, first))
    new = asyncio.create_task(collected(events))
    await asyncio.sleep(0)
    events.publish(EventKind.LINK_DOWN, port="p0")
    await asyncio.sleep(0)
    events.close()
    assert await late == ["graph-deployed", "graph-deployed", "link-down"]
    assert await new == ["link-down"]
    assert await collected(events) == []  # the node is ending


async def test_who_does_not_read_loses_the_stream() -> None:
    events = Events()
    stream = events.listen()
    pending = asyncio.ensure_future(anext(stream))
    await asyncio.sleep(0)
    for _ in range(1000):
        events.publish(EventKind.LINK_DOWN, port="p0")
    await pending
    assert len([event async for event in stream]) < 1000
    assert not events._listeners


async def test_listeners_are_bounded(api: Api) -> None:
    streams = [asyncio.ensure_future(anext(api.node.events.listen())) for _ in range(64)]
    await asyncio.sleep(0)
    assert (await api("GET", "/events")).status_code == 409
    with pytest.raises(TooManyListeners):
        await anext(api.node.events.listen())
    api.node.events.close()
    await asyncio.gather(*streams, return_exceptions=True)


@pytest.mark.parametrize("number", ["-1", "x", "1" * 19])
async def test_wrong_numbers(api: Api, number: str) -> None:
    answer = await api.http.get("/events", headers={"Last-Event-ID": number})
    assert answer.status_code == 400 and "Last-Event-ID" in answer.json()["message"]


async def test_users_hear_of_their_own_graphs(api: Api) -> None:
    ann, bob = User("ann", "sales"), User("bob", "staff")
    api.node.users.set_owner("g", ann)
    events = api.node.events
    events.publish(EventKind.GRAPH_DELETED, "g")
    events.publish(EventKind.LINK_DOWN, port="p0")
    gone, link = events._kept
    assert (_may_see(api.node, ann, gone), _may_see(api.node, bob, gone)) == (True, False)
    assert _may_see(api.node, bob, link)


class Orchestrator:
    """An HTTP server that keeps what is sent to it, and refuses the first `refuse` times."""

    def __init__(self, refuse: int = 0) -> None:
        self.documents: list[dict[str, object]] = []
        self.heads: list[str] = []
        self.refuse = refuse
        self.url = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = int(head.lower().split("content-length: ")[1].split("\r\n")[0])
                body = json.loads(await reader.readexactly(length))
                self.heads.append(head)
                code = 503 if self.refuse > 0 else 200
                self.refuse -= 1
                if code == 200:
                    self.documents.append(body["netgroup-domain:informations"])
                writer.write(f"HTTP/1.1 {code} x\r\nContent-Length: 0\r\n\r\n".encode())
        except asyncio.IncompleteReadError:
            writer.close()

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["Orchestrator"]:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/nodes"
        yield self
        server.close()

    async def until(self, met: Callable[[], bool]) -> None:
        deadline = asyncio.get_running_loop().time() + 20
        while not met():
            assert asyncio.get_running_loop().time() < deadline, self.documents
            await asyncio.sleep(0.05)


def free_memory(document: dict[str, object]) -> int:
    hardware = document["hardware-informations"]
    assert isinstance(hardware, dict)
    return int(hardware["resources"]["memory"]["free"])


@pytest.mark.parametrize("refuse", [0, 1])
async def test_an_orchestrator_is_told_of_changes(rundir: Path, refuse: int) -> None:
    async with Orchestrator(refuse).serving() as orchestrator:
        async for api in api_of(rundir):
            config = OrchestratorConfig(url=orchestrator.url, token="secret")
            task = asyncio.create_task(Announcer(api.node, config, "192.0.2.1:8080").run())
            await orchestrator.until(lambda: len(orchestrator.documents) == 1)
            assert "x-auth-token: secret" in orchestrator.heads[0].lower()
            first = orchestrator.documents[0]
            assert first["management-address"] == "192.0.2.1:8080"
            assert first["name"] == api.node.config.name
            await api("PUT", "/NF-FG/g", graphs.chain("pass", 1))
            await orchestrator.until(lambda: len(orchestrator.documents) == 2)
            assert free_memory(orchestrator.documents[1]) < free_memory(first)
            served = (await api("GET", "/domain-information")).json()
            served["netgroup-domain:informations"]["management-address"] = "192.0.2.1:8080"
            assert served["netgroup-domain:informations"] == orchestrator.documents[1]
            task.cancel()


def test_wrong_urls_in_node_yaml() -> None:
    with pytest.raises(ConfigError, match=r"orchestrator\.url"):
        from_dict({"orchestrator": {"url": "file:///etc/passwd"}})
