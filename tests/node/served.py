# SPDX-License-Identifier: Apache-2.0
"""A node that has been started, behind its own server with real sockets."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace.node.connections import Connections
from headrace.node.node import Node
from headrace.node.rest.app import make_app
from headrace.node.serving import Server, listen, listen_unix, server_settings
from headrace.node.tls import Tls


@asynccontextmanager
async def served(node: Node, tls: Tls | None = None) -> AsyncIterator[int]:
    """Serves a node on its Unix socket and on a port, which is yielded; whoever made it ends it."""
    rest = node.config.rest
    with listen(node.config) as tcp, listen_unix(node.rundir) as unix:
        settings = server_settings(make_app(node, tls=tls))
        settings.lifespan = "off"
        connections = Connections(rest.connections_per_peer, rest.connections)
        server = Server(settings, tcp, tls, connections)
        port = tcp.getsockname()[1]
        task = asyncio.create_task(server.serve(sockets=[unix]))
        for _ in range(1000):
            if server.started or task.done():
                break
            await asyncio.sleep(0.01)
        try:
            yield port
        finally:
            server.should_exit = True
            await task
