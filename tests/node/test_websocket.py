# SPDX-License-Identifier: Apache-2.0
"""Events by WebSocket: who gets them, what is refused, and that no client holds the node up."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from headrace.node import serving
from headrace.node.access.users import User
from headrace.node.events import EventKind
from tests.node.api import Api, api_of
from tests.node.crashing import FIRST
from tests.node.served import served


@asynccontextmanager
async def site(rundir: Path, **rest: Any) -> AsyncIterator[tuple[Api, str]]:
    """A node that serves a port, and the address of its events."""
    async for api in api_of(rundir, rest={"port": 0, **rest}):
        async with served(api.node) as port:
            yield api, f"ws://127.0.0.1:{port}/events"


async def told(socket: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(10):
        found: dict[str, Any] = json.loads(await socket.recv())
        return found


async def listening(api: Api, wanted: bool = True) -> None:
    """Returns when somebody listens, or nobody."""
    for _ in range(1000):
        if bool(api.node.events._listeners) is wanted:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"after ten seconds: {len(api.node.events._listeners)} listeners")


async def refused(address: str, **named: Any) -> int:
    with pytest.raises(InvalidStatus) as caught:
        async with connect(address, **named):
            pass
    return caught.value.response.status_code


async def test_events_come_and_none_is_missed(rundir: Path) -> None:
    async with site(rundir) as (api, address):
        async with connect(address) as socket:
            await listening(api)
            await api("PUT", "/NF-FG/g", FIRST)
            first = await told(socket)
            assert (first["event"], first["graph"]) == ("graph-deployed", "g")
            await socket.send("whatever a client says is thrown away")
            await api("DELETE", "/NF-FG/g")
            assert (await told(socket))["event"] == "graph-deleted"
        await listening(api, False)  # who has left is no listener any more
        async with connect(f"{address}?after={first['id']}") as socket:
            assert (await told(socket))["event"] == "graph-deleted"


async def test_who_may_listen(rundir: Path) -> None:
    async with site(rundir, login=True) as (api, address):
        users = api.node.users
        users.add_group("one")
        users.add(User("ann", "one"), "no hash")
        users.add(User("root", "admin"), "no hash")
        token = users.give_token("ann")
        assert await refused(address) == 403
        assert await refused(address, additional_headers={"x-auth-token": "0" * 64}) == 403
        assert await refused(address, subprotocols=["headrace.token." + "0" * 64]) == 403
        # Two tokens are none: it can't be said whose the request is.
        two = ["headrace.token." + token, "headrace.token." + users.give_token("root")]
        assert await refused(address, subprotocols=two) == 403
        log = (rundir / "log" / "audit.log").read_text()
        assert '"path": "/events", "status": 403' in log and token not in log
        offered = ["headrace.events", "headrace.token." + token]
        async with connect(address, subprotocols=[*map(Subprotocol, offered)]) as socket:
            assert socket.subprotocol == "headrace.events"  # the token is not said back
            await listening(api)
            users.set_owner("hers", User("ann", "one"))
            api.node.events.publish(EventKind.GRAPH_DEPLOYED, "another's")
            api.node.events.publish(EventKind.GRAPH_DEPLOYED, "hers")
            assert (await told(socket))["graph"] == "hers"


async def test_pages_of_other_places_get_none(rundir: Path) -> None:
    async with site(rundir) as (_, address):
        port = address.split(":")[2].split("/")[0]
        assert await refused(address, origin="http://evil.example") == 403
        assert await refused(address, origin=f"https://127.0.0.1:{port}") == 403
        assert await refused(address, additional_headers={"Host": "evil.example"}) in (400, 403)
        async with connect(address, origin=Origin(f"http://127.0.0.1:{port}")):
            pass
        assert await refused(address.replace("/events", "/node")) == 403


async def test_a_place_is_counted_and_given_back(rundir: Path) -> None:
    async with site(rundir, connections_per_peer=2) as (_, address):
        first, second = await connect(address), await connect(address)
        assert await refused(address) == 503
        await first.close()
        async with asyncio.timeout(10):
            while True:
                try:
                    third = await connect(address)
                    break
                except InvalidStatus:
                    await asyncio.sleep(0.05)
        await second.close()
        await third.close()


async def test_what_a_client_sends_is_bounded(rundir: Path) -> None:
    async with site(rundir) as (_, address), connect(address) as socket:
        await socket.send("x" * 5000)
        with pytest.raises(ConnectionClosed) as caught:
            async with asyncio.timeout(10):
                await socket.recv()
        assert caught.value.rcvd is not None and caught.value.rcvd.code == 1009


async def test_a_client_that_is_gone_is_cut_off(
    rundir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes nothing and answers no ping gives its place back."""
    monkeypatch.setattr(serving, "PING_S", 0.3)
    async with site(rundir, connections_per_peer=1) as (_, address):
        port = int(address.split(":")[2].split("/")[0])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            b"GET /events HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\n"
            b"Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        )
        assert b"101" in await reader.readline()
        assert await refused(address) == 503
        async with asyncio.timeout(15):
            while True:
                try:
                    async with connect(address, ping_interval=None):
                        break
                except InvalidStatus:
                    await asyncio.sleep(0.1)
        writer.close()


async def test_the_node_ends_with_clients(rundir: Path) -> None:
    async with asyncio.timeout(30):
        async with site(rundir) as (api, address):
            socket = await connect(address)
            await listening(api)
            api.node.events.close()
        with pytest.raises(ConnectionClosed):
            await socket.recv()
