# SPDX-License-Identifier: Apache-2.0
"""kube-scheduler with the extender: pods that are VNFs go where they cost least and fit."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from tests.cluster.objects import headrace_node
from tests.kubernetes.conftest import CLUSTER_COMMANDS, NODES, install
from tests.kubernetes.control_plane import Api, ControlPlane, Json, built, free_ports
from tests.kubernetes.fabric import ROOT
from tests.support.daemon import Daemon

PRICES = {"dear": 9.0, "cheap": 1.0, "middle": 4.0}
EVERY_S = "1"
PODS = "/api/v1/namespaces/default/pods"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _machine(api: Api, number: int, name: str, price: float) -> None:
    """A Node as a kubelet would report it, and its HeadraceNode as the controller would."""
    api.create("/api/v1/nodes", {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})
    has = {"cpu": "4", "memory": "4Gi", "pods": "20", "headrace.dev/vnf-core": "4"}
    ready = {
        "type": "Ready", "status": "True", "reason": "Test", "message": "",
        "lastHeartbeatTime": _now(), "lastTransitionTime": _now(),
    }  # fmt: skip
    status: Json = {"capacity": has, "allocatable": has, "conditions": [ready]}
    api.patch(f"/api/v1/nodes/{name}/status", {"status": status})
    api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": None}})
    body = headrace_node(name, number, prices={"node": price})
    body["metadata"] = {"name": name}
    api.create(NODES, body)
    condition = {
        "type": "Ready", "status": "True", "reason": "Ready", "message": "",
        "lastTransitionTime": _now(),
    }  # fmt: skip
    api.patch(f"{NODES}/{name}/status", {"status": {"conditions": [condition]}})


@pytest.fixture(scope="module")
def api(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Api]:
    """A control plane whose scheduler asks an extender, with three nodes."""
    programs = built()
    assert programs is not None
    (port,) = free_ports(1)
    extender = {
        "urlPrefix": f"http://127.0.0.1:{port}",
        "filterVerb": "filter",
        "prioritizeVerb": "prioritize",
        "bindVerb": "bind",
        "weight": 100,
        "nodeCacheCapable": True,
        "ignorable": False,
    }
    folder = tmp_path_factory.mktemp("plane")
    with ControlPlane(programs, folder, {"extenders": [extender]}) as plane:
        install(plane.api)
        for number, (name, price) in enumerate(PRICES.items(), 1):
            _machine(plane.api, number, name, price)
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        plane.api.until("the default account is there", lambda: plane.api.find(account))
        words = ["env", f"KUBECONFIG={plane.kubeconfig}", f"PYTHONPATH={ROOT}", sys.executable]
        words += [
            "-c",
            CLUSTER_COMMANDS,
            "cluster",
            "extender",
            "--port",
            str(port),
            "--every",
            EVERY_S,
        ]
        daemon = Daemon(words, folder / "extender.log")

        def serves() -> bool:
            try:
                return httpx.get(f"http://127.0.0.1:{port}/healthz").status_code == 200
            except httpx.TransportError:
                return False

        try:
            daemon.wait_until(serves, timeout_s=60.0)
            yield plane.api
        finally:
            daemon.stop()


def _pod(name: str, pps: int) -> Json:
    limits = {"headrace.dev/vnf-core": "1"}
    notes = {"headrace.dev/pps": str(pps), "headrace.dev/frame-bytes": "64"}
    container: dict[str, Any] = {
        "name": "vnf", "image": "vnf", "resources": {"limits": limits, "requests": limits}
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "annotations": notes,
            "labels": {"headrace.dev/vnf": "true"},
        },
        "spec": {"automountServiceAccountToken": False, "containers": [container]},
    }


def _place_of(api: Api, name: str) -> str:
    """The node to which the scheduler binds a pod."""
    path = f"{PODS}/{name}"
    return str(api.until(f"{name} is bound", lambda: api.get(path)["spec"].get("nodeName")))


def test_pods_go_where_they_cost_least(api: Api) -> None:
    api.create(PODS, _pod("first", 1_000_000))
    assert _place_of(api, "first") == "cheap"
    # 5 Mpps take more of the switch than the first has left there, and fit elsewhere; the extender
    # has not read again what pods there are.
    api.create(PODS, _pod("second", 5_000_000))
    assert _place_of(api, "second") == "middle"
    api.create(PODS, _pod("third", 9_000_000))

    def refused() -> str:
        status = api.get(f"{PODS}/third")["status"]
        return str([c.get("message") for c in status.get("conditions", [])])

    api.until("the third has no place", lambda: "switch" in refused())
    api.delete(f"{PODS}/third?gracePeriodSeconds=0")


def test_pods_that_come_at_once_go_to_nodes_that_have_room_for_them(api: Api) -> None:
    """Each takes more than half of a switch: three nodes take three, and the fourth waits."""
    for body in api.items(PODS):
        api.delete(f"{PODS}/{body['metadata']['name']}?gracePeriodSeconds=0")
    api.until("no pods", lambda: not api.items(PODS))
    time.sleep(2.5 * float(EVERY_S))  # the extender has read that they are gone
    names = [f"at-once-{number}" for number in range(4)]
    for name in names:
        api.create(PODS, _pod(name, 5_000_000))

    def places() -> list[str]:
        return [pod["spec"].get("nodeName", "") for pod in api.items(PODS)]

    api.until("three are bound", lambda: sum(map(bool, places())) == 3)
    assert sorted(places()) == ["", *sorted(PRICES)]
