# SPDX-License-Identifier: Apache-2.0
"""The handlers of kopf: they tell the driver what is wanted, and hold objects until it is done.

kopf watches and keeps the finalizers. What it stores at an object to find out what
has changed is its generation alone: a graph may be larger than an annotation can be.
"""

import asyncio
import logging
import threading
from typing import Any

import kopf

from headrace.cluster.controller.driver import Driver, Pace
from headrace.cluster.controller.kube import Body, KubernetesCluster
from headrace.cluster.controller.nodes import NodesApi
from headrace.cluster.core.core import Core
from headrace.cluster.core.settings import Settings
from headrace.cluster.resources import GRAPHS, GROUP, NODES, VERSION

FINALIZER = f"{GROUP}/controller"
AGAIN_S = 1.0


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


async def run(
    settings: Settings | None = None,
    pace: Pace | None = None,
    liveness: str | None = None,
    stop: threading.Event | None = None,
) -> None:
    """Runs the controller until it is told to stop (SIGTERM, or `stop`).

    kopf ends all tasks of the event loop that are left then, so the loop should be its own.
    """
    operator = Operator(settings, pace)
    await kopf.operator(
        registry=operator.registry,
        clusterwide=True,
        standalone=True,
        liveness_endpoint=liveness,
        stop_flag=stop,
    )
