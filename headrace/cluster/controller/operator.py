# SPDX-License-Identifier: Apache-2.0
"""The handlers of kopf: they tell the driver what is wanted, and hold objects until it is done.

kopf watches and keeps the finalizers. What it stores at an object to find out what
has changed is its generation alone: a graph may be larger than an annotation can be.
"""

import asyncio
import contextlib
import logging
import socket
import threading
import uuid
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

import kopf
from aiohttp import web

from headrace.cluster.controller.driver import Driver, Pace
from headrace.cluster.controller.kube import Body, KubernetesCluster
from headrace.cluster.controller.lease import Election, Terms
from headrace.cluster.controller.nodes import NodesApi
from headrace.cluster.core.core import Core
from headrace.cluster.core.settings import Settings
from headrace.cluster.resources import GRAPHS, GROUP, NODES, VERSION

FINALIZER = f"{GROUP}/controller"
AGAIN_S = 1.0
LEASE = "headrace", "headrace-controller"
"""Namespace and name of the Lease that the active controller holds."""


class GenerationStorage(kopf.AnnotationsDiffBaseStorage):
    """Remembers of an object which generation was handled."""

    def build(self, *, body: Any, extra_fields: Any = None) -> Any:
        """What is compared: nothing but the generation."""
        return {"metadata": {"generation": body["metadata"].get("generation", 1)}}


def login(**kwargs: Any) -> Any:
    """Credentials for kopf: the pod's, or kubectl's."""
    return kopf.login_via_client(**kwargs)


class Operator:
    """The controller as kopf runs it."""

    def __init__(self, settings: Settings | None = None, pace: Pace | None = None) -> None:
        """How the core behaves, and how often it looks."""
        self._settings, self._pace = settings or Settings(), pace
        self.driver: Driver | None = None
        self._cluster: KubernetesCluster | None = None
        self.registry = kopf.OperatorRegistry()
        registry = self.registry
        kopf.on.login(registry=registry)(login)
        kopf.on.startup(registry=registry, errors=kopf.ErrorsMode.PERMANENT)(self.begin)
        kopf.on.cleanup(registry=registry)(self.end)
        for decorate in (kopf.on.create, kopf.on.update, kopf.on.resume):
            decorate(GROUP, VERSION, GRAPHS, registry=registry, id="graph")(self.graph)
            decorate(GROUP, VERSION, NODES, registry=registry, id="node")(self.node)
        kopf.on.delete(GROUP, VERSION, GRAPHS, registry=registry)(self.delete_graph)
        kopf.on.delete(GROUP, VERSION, NODES, registry=registry)(self.delete_node)
        kopf.on.event(GROUP, VERSION, GRAPHS, registry=registry)(self.vanished)

    async def begin(self, settings: kopf.OperatorSettings, **_: Any) -> None:
        """Before anything is watched: what is there is read, and work begins."""
        settings.persistence.finalizer = FINALIZER
        settings.persistence.diffbase_storage = GenerationStorage(prefix=GROUP)
        settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=GROUP)
        settings.posting.level = logging.WARNING
        settings.posting.loggers = False
        self._cluster = await KubernetesCluster.connect()
        nodes = NodesApi(self._cluster.secret)
        self.driver = Driver(Core(self._settings), self._cluster, nodes, self._pace)
        await self.driver.start()

    async def end(self, **_: Any) -> None:
        """Nodes keep what they have: their graphs forward without a controller."""
        if self.driver is not None:
            await self.driver.stop()
        if self._cluster is not None:
            await self._cluster.close()

    async def graph(self, body: kopf.Body, **_: Any) -> None:
        """A ServiceGraph is there or has changed."""
        self._driver.set_graph(plain(body))

    async def node(self, body: kopf.Body, **_: Any) -> None:
        """A HeadraceNode is there or has changed."""
        self._driver.set_node(plain(body))

    async def delete_graph(self, uid: str, **_: Any) -> None:
        """Holds a ServiceGraph until its parts are gone."""
        for _again in range(20):
            if self._driver.remove_graph(uid):
                return
            await asyncio.sleep(0.1)
        raise kopf.TemporaryError("its parts are being removed", delay=AGAIN_S)

    async def delete_node(self, name: str | None, **_: Any) -> None:
        """Holds a HeadraceNode until its graphs are elsewhere."""
        if not await self._driver.remove_node(str(name)):
            raise kopf.TemporaryError("its graphs are being placed elsewhere", delay=AGAIN_S)

    async def vanished(self, type: str | None, body: kopf.Body, **_: Any) -> None:
        """Somebody took the finalizer away by hand: the parts go all the same."""
        if type == "DELETED":
            self._driver.remove_graph(str(body["metadata"]["uid"]))

    @property
    def _driver(self) -> Driver:
        assert self.driver is not None, "kopf has not called begin"
        return self.driver


def plain(body: Any) -> Body:
    """An object of kopf as a dictionary of dictionaries."""
    made = _plain(body)
    assert isinstance(made, dict)
    return made


def _plain(value: Any) -> Any:
    if hasattr(value, "items"):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


class NotActive(Exception):
    """Another controller is active now, or this one can't tell; the message says why."""


async def run(
    settings: Settings | None = None,
    pace: Pace | None = None,
    liveness: str | None = None,
    stop: threading.Event | None = None,
    lease: tuple[str, str] = LEASE,
    terms: Terms | None = None,
) -> None:
    """Runs the controller, once it is the active one, until it is told to stop.

    `stop` tells it, or SIGTERM. `lease` is namespace and name of the Lease that the active
    controller holds. kopf ends all tasks of the event loop that are left then, so the loop should
    be its own.

    Raises:
        NotActive: the Lease was lost. All calls to nodes have been ended before it counts for
            others.
    """
    flag: threading.Event | asyncio.Event = stop or asyncio.Event()
    cluster = await KubernetesCluster.connect()
    try:
        identity = f"{socket.gethostname()}_{uuid.uuid4().hex[:12]}"
        election = Election(cluster.lease(*lease), identity, terms)
        async with standing_by(liveness):
            if not await _elected(election, stop):
                return
        operator = Operator(settings, pace)
        keeping = asyncio.create_task(_keep(election, operator, flag))
        try:
            await kopf.operator(
                registry=operator.registry,
                clusterwide=True,
                standalone=True,
                liveness_endpoint=liveness,
                stop_flag=flag,
            )
        finally:
            keeping.cancel()
            lost = (await asyncio.gather(keeping, return_exceptions=True))[0]
            if not isinstance(lost, str):
                await election.release()
        if isinstance(lost, str):
            raise NotActive(f"Lease {'/'.join(lease)} is lost: {lost}")
    finally:
        await cluster.close()


async def _elected(election: Election, stop: threading.Event | None) -> bool:
    """Waits for the Lease; False: it was told to stop before."""
    acquiring = asyncio.create_task(election.acquire())
    while not acquiring.done():
        if stop is not None and stop.is_set():
            acquiring.cancel()
            await asyncio.gather(acquiring, return_exceptions=True)
            return False
        await asyncio.wait([acquiring], timeout=0.2)
    await acquiring
    return True


async def _keep(
    election: Election, operator: Operator, flag: threading.Event | asyncio.Event
) -> str:
    """Renews the Lease; when it is lost, nodes are left alone at once. Returns why it was."""
    why = await election.keep()
    if operator.driver is not None:
        await operator.driver.stop()
    flag.set()
    return why


@contextlib.asynccontextmanager
async def standing_by(liveness: str | None) -> AsyncIterator[None]:
    """Answers probes where kopf will, once this controller is the active one."""
    if liveness is None:
        yield
        return
    url = urlsplit(liveness)

    async def answer(_: web.Request) -> web.Response:
        return web.json_response({"active": False})

    application = web.Application()
    application.router.add_get(url.path or "/", answer)
    runner = web.AppRunner(application, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, url.hostname, url.port or 80).start()
        yield
    finally:
        await runner.cleanup()
