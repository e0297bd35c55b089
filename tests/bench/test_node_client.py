# SPDX-License-Identifier: Apache-2.0
"""The bench's client of a node whose connections end between two requests."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from fastapi import FastAPI

from headrace.bench.errors import DeviceError
from headrace.bench.node_client import KEPT_S, NodeClient
from headrace.node.serving import server_settings

BODY = b'{"busy_cycles": 7}'
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s"


class Server:
    """Answers one request of each connection, and closes it where the next one comes."""

    def __init__(self, answers: int) -> None:
        """`answers`: requests that are answered in all; later ones find an end."""
        self.left = answers
        self.requests: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answered = False
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(head.split()[0].decode())
                if answered or self.left == 0:
                    return
                answered, self.left = True, self.left - 1
                writer.write(ANSWER % (len(BODY), BODY))
                await writer.drain()
        except asyncio.IncompleteReadError:
            return
        finally:
            writer.close()


@asynccontextmanager
async def ending(answers: int) -> AsyncIterator[tuple[Server, NodeClient]]:
    """A server whose connections end like that, and a client of it."""
    server = Server(answers)
    listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    try:
        async with NodeClient(f"http://127.0.0.1:{port}") as client:
            yield server, client
    finally:
        listener.close()


async def test_a_reading_is_repeated_where_its_connection_has_ended() -> None:
    async with ending(answers=9) as (server, client):
        for _ in range(3):
            assert (await client.vnf_cycles("g", "v")).busy_cycles == 7
        # The second and third found a connection that ended, and took another one.
        assert server.requests == ["GET"] * 5


async def test_it_is_repeated_once_and_nothing_that_must_not_be() -> None:
    async with ending(answers=1) as (server, client):
        await client.vnf_cycles("g", "v")
        with pytest.raises(DeviceError, match="GET /node/vnfs/g/v/cycles"):
            await client.vnf_cycles("g", "v")
        assert server.requests == ["GET"] * 3
    async with ending(answers=2) as (server, client):
        await client.vnf_cycles("g", "v")
        with pytest.raises(DeviceError, match="DELETE /NF-FG/g"):
            await client.delete("g")
        assert server.requests == ["GET", "DELETE"]


def test_a_connection_is_given_up_before_the_node_closes_it() -> None:
    assert server_settings(FastAPI()).timeout_keep_alive > KEPT_S
