# SPDX-License-Identifier: Apache-2.0
"""Pods on the nodes' switches: scheduled by Kubernetes, with interfaces by the CNI plugin."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.kubernetes.conftest import Cluster
from tests.kubernetes.control_plane import Json
from tests.kubernetes.fabric import wait_for
from tests.kubernetes.graphs import service_graph
from tests.kubernetes.kubelet_double import NETWORKS, KubeletDouble, Pod
from tests.plugins.runtime import BUILT

PODS = "/api/v1/namespaces/default/pods"
CORE = "headrace.dev/vnf-core"

pytestmark = pytest.mark.skipif(
    not (BUILT / "headrace-cni").exists(), reason="the plugins are not built (make plugins)"
)

NETWORK = {
    "blue": {"cniVersion": "1.1.0", "type": "headrace-cni", "network": "blue"},
    "graph": {"cniVersion": "1.1.0", "type": "headrace-cni"},
}


@pytest.fixture
def kubelets(cluster: Cluster) -> Iterator[dict[str, KubeletDouble]]:
    """A double of the kubelet for each node."""
    with ExitStack() as stack:
        made = {
            node.name: stack.enter_context(KubeletDouble(cluster.api, node, NETWORK, {CORE: "2"}))
            for node in cluster.fabric.nodes
        }
        path = "/api/v1/namespaces/default/serviceaccounts/default"
        cluster.api.until("there are service accounts", lambda: cluster.api.find(path))
        yield made
        for body in cluster.api.items(PODS):
            cluster.api.delete(f"{PODS}/{body['metadata']['name']}")
        cluster.api.until("no pods", lambda: not cluster.api.items(PODS))
        cluster.delete_all()
        for node in cluster.fabric.nodes:
            wait_for(f"{node.name} has nothing left", lambda node=node: not node.left())
        assert [fault for kubelet in made.values() for fault in kubelet.faults] == []


def pod(name: str, networks: list[Json], node: str = "", cores: int = 1) -> Json:
    """A pod that asks for a core, and for interfaces."""
    limits = {CORE: str(cores)}
    container = {"name": "vnf", "image": "vnf:latest", "resources": {"limits": limits}}
    body: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "annotations": {NETWORKS: json.dumps(networks)}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    if node:
        body["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    return body


def started(cluster: Cluster, kubelets: dict[str, KubeletDouble], body: Json) -> tuple[str, Pod]:
    """Makes a pod and waits until it runs: its node, and what there is of it."""
    cluster.api.create(PODS, body)
    path = f"{PODS}/{body['metadata']['name']}"

    def runs() -> bool:
        return bool(cluster.api.get(path)["status"].get("phase") == "Running")

    try:
        cluster.api.until(f"{path} runs", runs)
    except AssertionError as error:
        faults = [fault for kubelet in kubelets.values() for fault in kubelet.faults]
        raise AssertionError(f"{cluster.api.get(path)['status']}\n{faults}") from error
    found = cluster.api.get(path)
    node = str(found["spec"]["nodeName"])
    return node, kubelets[node].pods[found["metadata"]["uid"]]


def test_pods_of_a_network(cluster: Cluster, kubelets: dict[str, KubeletDouble]) -> None:
    made = []
    for number in (1, 2):
        wanted = [{"name": "blue", "interface": "net1", "ips": [f"203.0.113.{number}/24"]}]
        made.append(started(cluster, kubelets, pod(f"p{number}", wanted, "n1")))
    (_, one), (_, two) = made
    said = one.netns.run("busybox", "ping", "-c", "3", "-i", "0.2", "-W", "5", "203.0.113.2")
    assert " 0% packet loss" in said
    body = cluster.api.get(f"{PODS}/p1")
    status = json.loads(body["metadata"]["annotations"]["k8s.v1.cni.cncf.io/network-status"])
    assert status == [{"name": "default/blue", "interface": "net1", "ips": ["203.0.113.1"]}]
    assert "net1" in two.netns.run("ip", "link")


def test_no_core_is_given_twice(cluster: Cluster, kubelets: dict[str, KubeletDouble]) -> None:
    """Two cores on each of three nodes: six pods run, and the seventh waits for one to go."""
    nodes = [started(cluster, kubelets, pod(f"p{number}", []))[0] for number in range(6)]
    assert sorted(nodes) == ["n1", "n1", "n2", "n2", "n3", "n3"]
    cluster.api.create(PODS, pod("late", []))

    def refused() -> bool:
        status = cluster.api.get(f"{PODS}/late")["status"]
        return any(
            f"Insufficient {CORE}" in one.get("message", "") for one in status.get("conditions", [])
        )

    cluster.api.until("the scheduler says why", refused)
    cluster.api.delete(f"{PODS}/p0")
    cluster.api.until(
        "the seventh runs",
        lambda: cluster.api.get(f"{PODS}/late")["status"].get("phase") == "Running",
    )
    assert cluster.api.get(f"{PODS}/late")["spec"]["nodeName"] == nodes[0]


def test_a_pod_in_a_service_graph(cluster: Cluster, kubelets: dict[str, KubeletDouble]) -> None:
    """The host of n3 reaches a pod on n1 through a graph, by the name of the pod's port."""
    args = {"port": "cnf0"}
    wanted = [{"name": "graph", "interface": "net1", "ips": ["198.51.100.77/24"], "cni-args": args}]
    _, made = started(cluster, kubelets, pod("cnf", wanted, "n1"))
    made.netns.run("ip", "link", "set", "net1", "mtu", "1400")
    ends = [
        {"id": "in", "type": "interface", "interface": {"if-name": "cnf0"}},
        {"id": "out", "type": "interface", "interface": {"if-name": "access"}},
    ]
    rules = [
        {
            "id": source,
            "priority": 1,
            "match": {"port_in": f"endpoint:{source}"},
            "actions": [{"output_to_port": f"endpoint:{target}"}],
        }
        for source, target in (("in", "out"), ("out", "in"))
    ]
    graph = {"name": "cnf", "VNFs": [], "end-points": ends, "big-switch": {"flow-rules": rules}}
    cluster.deploy(service_graph("cnf", graph, "n1", "n3"))
    n3 = cluster.fabric.node("n3")
    n3.host.run("busybox", "ping", "-c", "3", "-i", "0.2", "-W", "10", "198.51.100.77")
