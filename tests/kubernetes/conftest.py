# SPDX-License-Identifier: Apache-2.0
"""A cluster for all tests of this folder: control plane, three nodes, controller."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from headrace.cluster import manifests
from headrace.machine.programs import ProgramMissing, find_program
from tests.kubernetes.control_plane import Api, ControlPlane, Json, built
from tests.kubernetes.fabric import ROOT, Fabric
from tests.support.daemon import Daemon

GRAPHS = "/apis/headrace.dev/v1alpha1/namespaces/default/servicegraphs"
NODES = "/apis/headrace.dev/v1alpha1/headracenodes"

DOWN_AFTER_S, UP_AFTER_S, PROBE_S = 2.0, 5.0, 0.5

CLUSTER_COMMANDS = """
import typer
from headrace.commands import cluster
app = typer.Typer(pretty_exceptions_enable=False)
cluster.register(app)
app()
"""

_COLLECTIONS = {
    "CustomResourceDefinition": "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "Namespace": "/api/v1/namespaces",
}


def lacking() -> str:
    """Why these tests cannot run here."""
    if os.geteuid() != 0:
        return "needs root: makes network namespaces and starts switches"
    if built() is None:
        return "the control plane of Kubernetes is not built (make cluster)"
    with contextlib.suppress(ProgramMissing):
        find_program("headrace-switch")
        return ""
    return "headrace-switch is not built"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks the tests of the cluster, and skips them where they cannot run."""
    own = ("test_cluster.py", "test_extender.py", "test_pods.py")
    here = Path(__file__).parent
    mine = [item for item in items if here in item.path.parents and item.path.name in own]
    reason = lacking() if mine else ""
    for item in mine:
        item.add_marker(pytest.mark.full)
        item.add_marker(pytest.mark.root)
        item.add_marker(pytest.mark.dpdk)
        item.add_marker(pytest.mark.timeout(900))
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))


@dataclass
class Cluster:
    """All of it."""

    plane: ControlPlane
    fabric: Fabric
    controller: Daemon

    @property
    def api(self) -> Api:
        """The API server's client."""
        return self.plane.api

    def condition(self, name: str, kind: str = "Ready") -> Json:
        """A condition of a ServiceGraph; an empty one if it has none yet."""
        body = self.api.find(f"{GRAPHS}/{name}") or {}
        found = body.get("status", {}).get("conditions", [])
        return next((one for one in found if one["type"] == kind), {})

    def deploy(self, body: Json, timeout_s: float = 90.0) -> Json:
        """Makes a ServiceGraph and waits until it is ready; its status."""
        name = body["metadata"]["name"]
        self.api.create(GRAPHS, body)
        return self.ready(name, timeout_s)

    def ready(self, name: str, timeout_s: float = 90.0) -> Json:
        """Waits until a ServiceGraph is ready; its status."""

        def holds() -> bool:
            return self.condition(name).get("status") == "True"

        try:
            self.api.until(f"{name} is ready", holds, timeout_s)
        except AssertionError as error:
            said = self.controller.log_tail(30)
            raise AssertionError(f"{self.condition(name)}\n{said}") from error
        status: Json = self.api.get(f"{GRAPHS}/{name}")["status"]
        return status

    def delete_all(self, timeout_s: float = 180.0) -> None:
        """Deletes all ServiceGraphs and waits until they are gone."""
        for body in self.api.items(GRAPHS):
            self.api.delete(f"{GRAPHS}/{body['metadata']['name']}")
        self.api.until("no graphs", lambda: not self.api.items(GRAPHS), timeout_s)

    def nodes_ready(self, timeout_s: float = 90.0) -> None:
        """Waits until all nodes take new graphs."""

        def holds() -> bool:
            return all(
                any(
                    one["type"] == "Ready" and one["status"] == "True"
                    for one in body.get("status", {}).get("conditions", [])
                )
                for body in self.api.items(NODES)
            )

        self.api.until("all nodes are ready", holds, timeout_s)


def install(api: Api) -> None:
    """Applies the custom resources, and the namespace of the controller."""
    for name in manifests.NAMES:
        for body in manifests.objects(name):
            if body["kind"] in _COLLECTIONS:
                api.create(_COLLECTIONS[body["kind"]], body)
    for path in (GRAPHS, NODES):
        api.until(f"{path} is served", partial(api.find, path))


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A control plane with the custom resources."""
    programs = built()
    assert programs is not None
    with ControlPlane(programs, tmp_path_factory.mktemp("plane")) as made:
        install(made.api)
        yield made


@pytest.fixture(scope="session")
def cluster(plane: ControlPlane) -> Iterator[Cluster]:
    """Three nodes, known to the API server, and the controller."""
    with Fabric() as fabric:
        for node in fabric.nodes:
            for path, body in node.objects():
                plane.api.create(path, body)
        words = ["env", f"KUBECONFIG={plane.kubeconfig}", f"PYTHONPATH={ROOT}"]
        words += [sys.executable, "-c", CLUSTER_COMMANDS, "cluster", "controller"]
        words += ["--down-after", str(DOWN_AFTER_S), "--up-after", str(UP_AFTER_S)]
        words += ["--probe-every", str(PROBE_S)]
        controller = Daemon(words, plane.folder / "controller.log")
        try:
            made = Cluster(plane, fabric, controller)
            made.nodes_ready()
            yield made
        finally:
            controller.stop(timeout_s=60.0)
