# SPDX-License-Identifier: Apache-2.0
"""Whoever holds connections open, or is slow on them, holds up nobody; addresses aren't forged."""

import asyncio
import json
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.node.access.lockout import FREE
from headrace.node.access.users import User, hash_of
from headrace.node.config import from_dict
from headrace.node.connections import Connections, Slot, TimedProtocol, TooMany
from headrace.node.errors import ConfigError
from headrace.node.serving import listen
from headrace.node.tls import Tls, make_self_signed
from tests.node.api import Api, api_of
from tests.node.crashing import FIRST
from tests.node.served import served

HOST = b"Host: localhost\r\n"
ELSEWHERE = "127.0.0.2"
"""Another address of the loopback interface: another peer."""


class Site:
    """A node on the fake world that serves a port."""

    def __init__(self, api: Api, port: int) -> None:
        self.api, self.port = api, port

    async def connect(self, source: str = "127.0.0.1") -> "Client":
        pair = await asyncio.open_connection("127.0.0.1", self.port, local_addr=(source, 0))
        return Client(*pair)

    async def status(self, source: str = "127.0.0.1") -> int:
        """The code of GET /node on a connection of its own."""
        client = await self.connect(source)
        with closing(client):
            client.send(b"GET /node HTTP/1.1\r\nConnection: close\r\n" + HOST + b"\r\n")
            return (await client.answer())[0]


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, octets: bytes) -> None:
        self.writer.write(octets)

    async def answer(self) -> tuple[int, dict[str, Any]]:
        """The next answer: its code, and its body if it is JSON."""
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        lines = dict(line.split(": ", 1) for line in head.split("\r\n")[1:] if line)
        length = {key.lower(): value for key, value in lines.items()}.get("content-length", "0")
        body = await self.reader.readexactly(int(length))
        return int(head.split()[1]), json.loads(body) if body else {}

    async def ended(self) -> bool:
        """Whether the node has closed the connection, now or within five seconds."""
        try:
            async with asyncio.timeout(5):
                while await self.reader.read(1 << 16):
                    pass
        except ConnectionError:
            return True
        except TimeoutError:
            return False
        return True

    def close(self) -> None:
        self.writer.transport.abort()


async def eventually(ask: Callable[[], Awaitable[int]]) -> None:
    """Asks until the answer is 200, for five seconds."""
    for _ in range(50):
        if await ask() == 200:
            return
        await asyncio.sleep(0.1)
    raise AssertionError("no place has become free")


@asynccontextmanager
async def serving(rundir: Path, **rest: Any) -> AsyncIterator[Site]:
    async for api in api_of(rundir, rest={"port": 0, **rest}):
        async with served(api.node) as port:
            yield Site(api, port)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections with less patience."""
    monkeypatch.setattr(TimedProtocol, "headers_s", 0.8)
    monkeypatch.setattr(TimedProtocol, "pause_s", 0.8)


def test_the_times_are_those_of_the_docs() -> None:
    assert (TimedProtocol.headers_s, TimedProtocol.pause_s) == (15.0, 30.0)


PEERS = st.sampled_from(
    ["192.0.2.1", "192.0.2.2", "::ffff:192.0.2.1", "2001:db8::1", "2001:db8::2", "2001:db8:0:1::1"]
)


@given(st.integers(1, 4), st.integers(1, 8), st.lists(PEERS | st.integers(0, 9), max_size=40))
def test_counts_stay_within_the_bounds(per_peer: int, total: int, steps: list[str | int]) -> None:
    """A text opens a connection from there, a number closes the one that it is the number of."""
    connections = Connections(per_peer, total)
    held: list[tuple[str, Slot]] = []
    names = {"::ffff:192.0.2.1": "192.0.2.1", "2001:db8::2": "2001:db8::1"}
    for step in steps:
        if isinstance(step, int):
            if step < len(held):
                _, slot = held.pop(step)
                slot.release()
                slot.release()  # counts once
            continue
        peer = names.get(step, step)
        full = len(held) >= total or [name for name, _ in held].count(peer) >= per_peer
        try:
            held.append((peer, connections.admit(step)))
            assert not full
        except TooMany:
            assert full
        assert connections.open == len(held)
    for _, slot in held:
        slot.release()
    assert connections.open == 0 and not connections._open


def test_settings() -> None:
    rest = from_dict({"rest": {"connections": 10, "connections_per_peer": 2}}).rest
    assert (rest.connections, rest.connections_per_peer) == (10, 2)
    for wrong in ({"connections": 0}, {"connections_per_peer": 0}, {"connections": 100_000}):
        with pytest.raises(ConfigError, match="connections"):
            from_dict({"rest": wrong})


def test_no_answer_waits_for_the_acknowledgement_of_its_head() -> None:
    with listen(from_dict({"rest": {"port": 0}})) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()):
            taken, _ = listener.accept()
        with taken:
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1


async def test_too_many_from_one_peer(rundir: Path) -> None:
    async with serving(rundir, connections_per_peer=3) as site:
        held = [await site.connect() for _ in range(3)]
        for _ in range(40):  # more than are answered at a time
            refused = await site.connect()
            assert await site.status(ELSEWHERE) == 200
            refused.close()
        refused = await site.connect()
        refused.send(b"GET /node HTTP/1.1\r\n" + HOST + b"\r\n")
        code, body = await refused.answer()
        assert code == 503 and body["module"] == "rest"
        assert "127.0.0.1 has 3 connections open (rest.connections_per_peer)" in body["message"]
        assert await refused.ended()
        # Those that are open are served, and their places are free when they end.
        held[0].send(b"GET /node HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await held[0].answer())[0] == 200
        held.pop().close()
        await eventually(site.status)
        for client in held:
            client.close()


async def test_too_many_in_all(rundir: Path) -> None:
    async with serving(rundir, connections_per_peer=2, connections=4) as site:
        held = [await site.connect(f"127.0.0.{last}") for last in (1, 1, 2, 2)]
        refused = await site.connect("127.0.0.3")
        code, body = await refused.answer()  # before it has asked anything
        assert code == 503
        assert body["message"] == "the node has 4 connections open (rest.connections)"
        # The node's own user gets in whatever comes by the network.
        transport = httpx.AsyncHTTPTransport(uds=str(rundir / "api.sock"))
        async with httpx.AsyncClient(transport=transport) as local:
            assert (await local.get("http://localhost/node")).status_code == 200
        for client in (*held, refused):
            client.close()


async def test_a_connection_counts_before_its_handshake(rundir: Path) -> None:
    files = make_self_signed(rundir / "tls", ["localhost"], 1)
    async for api in api_of(rundir, rest={"port": 0, "connections_per_peer": 2}):
        async with served(api.node, Tls(*files)) as port:
            site = Site(api, port)
            held = [await site.connect() for _ in range(2)]
            refused = await site.connect()
            assert await refused.reader.read() == b"" and not held[0].reader.at_eof()
            held[0].send(b"no TLS at all")
            assert await held[0].ended()

            async def over_tls() -> int:
                context = ssl.create_default_context(cafile=files[0])
                async with httpx.AsyncClient(verify=context) as http:
                    try:
                        return (await http.get(f"https://localhost:{port}/node")).status_code
                    except httpx.TransportError:
                        return 0

            await eventually(over_tls)  # its place is free
            for client in held:
                client.close()


@pytest.mark.usefixtures("hurried")
async def test_headers_that_take_too_long(rundir: Path) -> None:
    async with serving(rundir) as site:
        silent, slow, kept = [await site.connect() for _ in range(3)]
        kept.send(b"GET /node HTTP/1.1\r\n" + HOST + b"\r\n")
        assert (await kept.answer())[0] == 200
        began = time.monotonic()
        answers = [asyncio.create_task(client.answer()) for client in (silent, slow, kept)]
        for client in (slow, kept):
            client.send(b"GET /node HTTP/1.1\r\n")
        async with asyncio.timeout(5):
            while not all(answer.done() for answer in answers):
                for client, answer in zip((slow, kept), answers[1:], strict=True):
                    if not answer.done():
                        client.send(b"X: 1\r\n")  # there is always something coming
                await asyncio.sleep(0.05)
        assert 0.5 < time.monotonic() - began < 4
        for client, answer in zip((silent, slow, kept), answers, strict=True):
            code, body = await answer
            assert code == 408 and "headers" in body["message"]
            assert await client.ended()
        assert await site.status() == 200


@pytest.mark.usefixtures("hurried")
async def test_a_body_that_pauses(rundir: Path) -> None:
    async with serving(rundir) as site:
        await site.api.node.graphs.create("g", FIRST)
        client = await site.connect()
        head = b"DELETE /NF-FG/g HTTP/1.1\r\nContent-Type: application/json\r\n" + HOST
        client.send(head + b"Content-Length: 9\r\n\r\n")
        code, body = await client.answer()
        assert code == 408 and "body" in body["message"]
        assert await client.ended()
        # Whole JSON of a body that is cut off, by the client itself.
        client = await site.connect()
        client.send(head + b"Content-Length: 9\r\n\r\n{}")
        await asyncio.sleep(0.1)
        client.close()
        await asyncio.sleep(0.1)
        assert site.api.node.graphs.record("g")  # half a request is not carried out


@pytest.mark.usefixtures("hurried")
async def test_a_slow_body_without_a_pause_is_taken(rundir: Path) -> None:
    async with serving(rundir) as site:
        document = json.dumps(FIRST).encode() + b" " * 4000  # 2,500 octets/s
        client = await site.connect()
        head = b"PUT /NF-FG/g HTTP/1.1\r\nContent-Type: application/json\r\n" + HOST
        client.send(head + b"Content-Length: %d\r\n\r\n" % len(document))
        step = len(document) // 8 + 1
        for at in range(0, len(document), step):  # 1.6 s, twice as long as a pause may be
            client.send(document[at : at + step])
            await asyncio.sleep(0.2)
        assert (await client.answer())[0] == 201
        client.close()


@pytest.mark.usefixtures("hurried")
async def test_an_octet_now_and_then_keeps_no_connection(rundir: Path) -> None:
    """There is never a pause, and yet it ends: a body has a least rate after its first pause."""
    async with serving(rundir) as site:
        client = await site.connect()
        head = b"PUT /NF-FG/g HTTP/1.1\r\nContent-Type: application/json\r\n" + HOST
        client.send(head + b"Content-Length: 1000\r\n\r\n")
        began = time.monotonic()
        answer = asyncio.create_task(client.answer())
        async with asyncio.timeout(8):
            while not answer.done():
                client.send(b" ")
                await asyncio.sleep(0.1)
        code, body = await answer
        assert code == 408 and "500 octets/s" in body["message"]
        assert 0.5 < time.monotonic() - began < 6
        assert await client.ended()


@pytest.mark.usefixtures("hurried")
async def test_an_answer_that_is_taken_octet_by_octet(rundir: Path) -> None:
    async with serving(rundir, connections_per_peer=1) as site:
        taker = socket.socket()
        taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        taker.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(taker, ("127.0.0.1", site.port))
        with taker:
            asked = (b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n") * 400
            sending = asyncio.create_task(loop.sock_sendall(taker, asked))
            began = time.monotonic()
            async with asyncio.timeout(15):
                while await site.status() != 200:  # its place is free
                    await loop.sock_recv(taker, 10)
                    await asyncio.sleep(0.1)
            assert time.monotonic() - began > 0.5
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            # It gets what its own kernel has, and nothing of what the node's had.
            with pytest.raises(ConnectionError):
                while await loop.sock_recv(taker, 1 << 16):
                    pass


@pytest.mark.usefixtures("hurried")
async def test_an_answer_that_is_not_taken(rundir: Path) -> None:
    async with serving(rundir, connections_per_peer=1) as site:
        taker = socket.socket()
        taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        taker.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(taker, ("127.0.0.1", site.port))
        with taker:
            asked = (b"GET /openapi.json HTTP/1.1\r\n" + HOST + b"\r\n") * 400
            sending = asyncio.create_task(loop.sock_sendall(taker, asked))
            await asyncio.sleep(0.3)
            assert await site.status() == 503
            await eventually(site.status)
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)


async def test_a_body_that_pauses_does_not_hold_up_the_end(rundir: Path) -> None:
    began = time.monotonic()
    async with serving(rundir) as site:
        client = await site.connect()
        head = b"PUT /NF-FG/g HTTP/1.1\r\nContent-Type: application/json\r\n" + HOST
        client.send(head + b"Content-Length: 100\r\n\r\n{")
        assert await site.status() == 200
    assert await client.ended()
    assert time.monotonic() - began < 15


async def test_a_forged_address_does_not_evade_the_lockout(rundir: Path) -> None:
    async with serving(rundir, login=True) as site:
        site.api.node.users.add(User("ann", "admin"), hash_of("the password"))
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{site.port}") as http:
            codes = []
            for number in range(FREE + 1):
                forged = f"192.0.2.{number}"
                headers = {"x-forwarded-for": forged, "forwarded": f"for={forged}"}
                body = {"username": f"user{number}", "password": "guess"}
                codes.append((await http.post("/login", json=body, headers=headers)).status_code)
            assert codes == [401] * FREE + [429]
            # Nor does it make somebody else wait.
            assert site.api.node.lockout.wait_s("ann", "192.0.2.1") == 0
