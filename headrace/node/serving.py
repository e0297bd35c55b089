# SPDX-License-Identifier: Apache-2.0
"""The node's own process: one serves a node directory at a time."""

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import socket
from pathlib import Path

import uvicorn

from headrace.machine.processes import ProcessId, write_atomically
from headrace.node.config import NodeConfig
from headrace.node.daemon import node_file
from headrace.node.errors import ConfigError
from headrace.node.node import Node
from headrace.node.rest.app import make_app
from headrace.node.restarts import Restarter


def listen(config: NodeConfig) -> socket.socket:
    """The socket of the REST API; port 0 takes any free one.

    Raises:
        ConfigError: the address is in use or not ours.
    """
    rest = config.rest
    family = socket.AF_INET6 if ":" in rest.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((rest.host, rest.port))
    except OSError as error:
        listener.close()
        raise ConfigError(
            "rest",
            f"cannot listen on {rest.host}:{rest.port}: {error.strerror}; "
            f"choose another address with --rest",
        ) from error
    return listener


def serve(config: NodeConfig, rundir: Path) -> None:
    """Runs a node in this process until SIGTERM or SIGINT; switch and VNFs run on afterwards.

    Raises:
        NodeError, SwitchError: the node cannot start; what it had started by then runs on, and the
            next `up` goes on with it or `down` ends it.
    """
    rundir.mkdir(parents=True, exist_ok=True)
    logging.basicConfig(
        level=config.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    with (rundir / "node.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            text = f"a node already serves {rundir}; run `headrace down` or choose --rundir"
            raise ConfigError("node", text) from None
        listener = listen(config)
        with contextlib.closing(listener):
            asyncio.run(_serve(config, rundir, listener))


async def _serve(config: NodeConfig, rundir: Path, listener: socket.socket) -> None:
    if config.cores.control:
        os.sched_setaffinity(0, config.cores.control)
    node = Node(config, rundir)
    await node.start()
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    me = ProcessId.of(os.getpid())
    said = {
        "pid": os.getpid(),
        "start_ticks": me.start_ticks if me else 0,
        "url": f"http://{shown}:{port}",
    }
    settings = uvicorn.Config(make_app(node), log_level="warning", lifespan="on")
    server = uvicorn.Server(settings)
    write_atomically(node_file(rundir), json.dumps(said))
    restarter = asyncio.create_task(Restarter(node).run())
    try:
        await server.serve(sockets=[listener])
    finally:
        restarter.cancel()
        node_file(rundir).unlink(missing_ok=True)
