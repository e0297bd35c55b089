# SPDX-License-Identifier: Apache-2.0
"""The node's own process: one serves a node directory at a time."""

import asyncio
import fcntl
import gc
import json
import logging
import os
import resource
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn
from fastapi import FastAPI

from headrace.machine.places import log_directory
from headrace.machine.priority import raise_own
from headrace.machine.processes import ProcessId, make_private, write_atomically
from headrace.machine.reaping import Reaper, become_reaper
from headrace.node.config import NodeConfig
from headrace.node.connections import Connections, Listener, Slot, TimedProtocol
from headrace.node.daemon import node_file, socket_of
from headrace.node.domain import Announcer
from headrace.node.errors import ConfigError
from headrace.node.event_socket import MAX_MESSAGE, PING_S, EventSocket
from headrace.node.logs import LogKeeper
from headrace.node.node import Node
from headrace.node.observing import learning
from headrace.node.resource_watch import ResourceWatch, machine_of
from headrace.node.rest.app import make_app
from headrace.node.restarts import Restarter
from headrace.node.tls import Tls, keep_renewed

_REAP_EVERY_S = 5.0
_DESCRIPTORS = 65_536
_YOUNG_OBJECTS, _COLLECTIONS = 50_000, 20
"""How many new objects are looked through at once; after how many times those that stayed are."""


def listen(config: NodeConfig) -> socket.socket:
    """The socket of the REST API; port 0 takes any free one.

    Raises:
        ConfigError: the address is in use or not ours.
    """
    rest = config.rest
    family = socket.AF_INET6 if ":" in rest.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    # Connections inherit it. Else the body of an answer, which follows its head, waits for the
    # acknowledgement of that, which the client delays by 40 ms.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if family is socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)  # :: is any address
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


def listen_unix(rundir: Path) -> socket.socket:
    """The Unix socket of the REST API, for the user of the node alone."""
    path = socket_of(rundir)
    path.unlink(missing_ok=True)  # of a node that was killed: the caller holds the lock
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)
    try:
        listener.bind(str(path))
    except OSError as error:
        listener.close()
        raise ConfigError("rest", f"cannot listen on {path}: {error}") from error
    finally:
        os.umask(before)
    return listener


def serve(config: NodeConfig, rundir: Path) -> None:
    """Runs a node in this process until SIGTERM or SIGINT; switch and VNFs run on afterwards.

    Raises:
        NodeError, SwitchError: the node cannot start; what it had started by then runs on, and the
            next `up` goes on with it or `down` ends it.
    """
    os.umask(0o077)
    make_private(rundir)
    logging.basicConfig(
        level=config.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    logging.getLogger("watchfiles").setLevel(logging.WARNING)  # or each change of a file is a line
    with (rundir / "node.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            text = f"a node already serves {rundir}; run `headrace down` or choose --rundir"
            raise ConfigError("node", text) from None
        files = config.rest.tls
        tls = Tls(files.certificate, files.key) if files else None
        with listen(config) as tcp, listen_unix(rundir) as unix:
            asyncio.run(_serve(config, rundir, tcp, unix, tls))


async def notify_ready() -> None:
    """Tells the service manager that has started this process, if one has (sd_notify(3))."""
    address = os.environ.get("NOTIFY_SOCKET")
    if address:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.connect(f"\0{address[1:]}" if address.startswith("@") else address)
            manager.send(b"READY=1")


def server_settings(app: FastAPI) -> uvicorn.Config:
    """How the server serves an app.

    There is no proxy whose X-Forwarded-For could be believed: the address of a request, which the
    audit log has and failed logins are counted by, is that of its connection.
    """
    return uvicorn.Config(
        app,
        log_level="warning",
        lifespan="on",
        http=TimedProtocol,
        ws=EventSocket,
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_per_message_deflate=False,
        proxy_headers=False,
    )


class Server(uvicorn.Server):
    """One server on both sockets; connections of the second are counted, and TLS if there is one.

    uvicorn itself has TLS for all of its sockets or for none.
    """

    def __init__(
        self,
        config: uvicorn.Config,
        tcp: socket.socket,
        tls: Tls | None,
        connections: Connections,
        end_streams: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._tcp, self._tls = tcp, tls
        self._connections, self._end_streams = connections, end_streams

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Ends answers that have no end of their own, then waits for all others."""
        self._end_streams()
        await super().shutdown(sockets)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listens; connections of all sockets are closed alike."""
        await super().startup(sockets)

        def protocol(slot: Slot) -> asyncio.Protocol:
            return TimedProtocol(
                config=self.config,
                server_state=self.server_state,
                app_state=self.lifespan.state,
                slot=slot,
            )

        context = self._tls.context if self._tls else None
        listener = Listener(self._tcp, self._connections, protocol, context)
        listener.start()
        # uvicorn closes what it has here, and waits for that: all that a Listener is asked for.
        self.servers.append(listener)  # type: ignore[arg-type]


def raise_descriptors() -> int:
    """Lets this process, and what it starts, have as many descriptors as many graphs need.

    Each process that is watched takes one, and each LSI a connection here and some in the switch;
    the usual 1024 are those of some hundred graphs. Returns the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


def collect_less() -> None:
    """Lets Python look for cycles of garbage less often than in a small program.

    The store, the plans and the holdings of many graphs are many objects that stay. By default each
    700 new ones are looked through, and all that stay once there are a quarter more of them: an
    answer of many rows took that time on top of its own. In a profile of /metrics beside 1,000
    graphs about a third of the samples were where objects are made.
    """
    gc.set_threshold(_YOUNG_OBJECTS, _COLLECTIONS, _COLLECTIONS)


async def _reap(node: Node) -> None:
    """Waits for what ended containers and others leave, but for the VNFs' own exit codes."""
    reaper = Reaper()
    while True:
        await asyncio.sleep(_REAP_EVERY_S)
        reaper.look(node.supervisor.known_pids())


async def _recover_and_watch(node: Node) -> None:
    """Brings the graphs on record back while the API answers, then look after them."""
    await node.recover()
    await asyncio.gather(Restarter(node).run(), node.scaler.run(), learning(node))


async def _serve(
    config: NodeConfig,
    rundir: Path,
    tcp: socket.socket,
    unix: socket.socket,
    tls: Tls | None,
) -> None:
    if config.cores.control:
        os.sched_setaffinity(0, config.cores.control)
    raise_own()
    raise_descriptors()
    collect_less()
    become_reaper()
    node = Node(config, rundir)
    await node.start_switch()
    host, port = tcp.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    me = ProcessId.of(os.getpid())
    said = {
        "pid": os.getpid(),
        "start_ticks": me.start_ticks if me else 0,
        "url": f"{'https' if tls else 'http'}://{shown}:{port}",
        "socket": str(socket_of(rundir)),
    }
    settings = server_settings(make_app(node, on_ready=notify_ready, tls=tls))
    rest = config.rest
    connections = Connections(rest.connections_per_peer, rest.connections)
    server = Server(settings, tcp, tls, connections, node.events.close)
    write_atomically(node_file(rundir), json.dumps(said))
    keeper = LogKeeper(
        log_directory(rundir),
        config.log_mb << 20,
        lambda: ("node", *node.supervisor.names()),
        node.consoles,
    )
    announcer = Announcer(node, config.orchestrator, f"{shown}:{port}")
    machine = ResourceWatch(node.events, lambda: machine_of(rundir))
    works = (
        *(_recover_and_watch(node), keeper.run(), keep_renewed(tls), _reap(node)),
        *(announcer.run(), machine.run()),
    )
    tasks = [asyncio.create_task(work) for work in works]
    try:
        await server.serve(sockets=[unix])
    finally:
        for task in tasks:
            task.cancel()
        node_file(rundir).unlink(missing_ok=True)
        socket_of(rundir).unlink(missing_ok=True)
