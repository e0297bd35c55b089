# SPDX-License-Identifier: Apache-2.0
"""A double of the kubelet, for machines that can run none. It is not the kubelet.

What it does: registers a Node with its extended resources, keeps it ready, and for each pod that
the scheduler gives it makes a network namespace, has the CNI plugin make the interfaces that the
pod's annotation `k8s.v1.cni.cncf.io/networks` asks for, and says that the pod runs; when the pod is
deleted it undoes that. It runs no container: tests run programs in the pod's namespace themselves.
Device plugins are not asked (plugins/internal/device has tests of its own).
"""

from __future__ import annotations

import json
import threading
import traceback
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

from tests.kubernetes.control_plane import Api
from tests.kubernetes.fabric import Node
from tests.plugins.runtime import Answer, execute
from tests.support.namespaces import Namespace

Json = dict[str, Any]
NETWORKS = "k8s.v1.cni.cncf.io/networks"
_EVERY_S = 0.2


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Pod:
    """What there is of a pod on this machine."""

    def __init__(self, node: Node, body: Json, networks: dict[str, Json]) -> None:
        self._node, self._networks = node, networks
        self.namespace = body["metadata"]["namespace"]
        self.name = body["metadata"]["name"]
        self.uid = body["metadata"]["uid"]
        self.netns = Namespace()
        said = body["metadata"].get("annotations", {}).get(NETWORKS, "[]")
        self._wanted: list[Json] = json.loads(said)
        self._results: dict[str, Json] = {}

    def start(self) -> None:
        """Makes its namespace and interfaces."""
        self.netns.__enter__()
        for one in self._wanted:
            answer = self._call("ADD", one)
            assert answer.exit_code == 0 and answer.content is not None, answer
            self._results[one["interface"]] = answer.content

    def stop(self) -> None:
        """Removes them."""
        for one in reversed(self._wanted):
            answer = self._call("DEL", one)
            assert answer.exit_code == 0, answer
        self.netns.__exit__(None, None, None)

    def status(self) -> list[Json]:
        """The value of the annotation `network-status`."""
        return [
            {
                "name": f"{self.namespace}/{one['name']}",
                "interface": one["interface"],
                "ips": [
                    ip["address"].split("/")[0]
                    for ip in self._results[one["interface"]].get("ips", [])
                ],
            }
            for one in self._wanted
        ]

    def _call(self, command: str, wanted: Json) -> Answer:
        variables = {
            "CNI_COMMAND": command,
            "CNI_CONTAINERID": self.uid,
            "CNI_NETNS": f"/run/netns/{self.netns.name}",
            "CNI_IFNAME": wanted["interface"],
            "CNI_ARGS": f"IgnoreUnknown=1;K8S_POD_NAMESPACE={self.namespace};"
            f"K8S_POD_NAME={self.name};K8S_POD_UID={self.uid}",
        }
        configuration = dict(self._networks[wanted["name"]])
        configuration["name"] = wanted["name"]
        configuration["node"] = str(self._node.rundir / "api.sock")
        if "cni-args" in wanted:
            configuration["args"] = {"cni": wanted["cni-args"]}
        if "ips" in wanted:
            addresses = [{"address": address} for address in wanted["ips"]]
            configuration["ipam"] = {"type": "static", "addresses": addresses}
        if command == "DEL" and wanted["interface"] in self._results:
            configuration["prevResult"] = self._results[wanted["interface"]]
        within = ("ip", "netns", "exec", self._node.ns)
        return execute("headrace-cni", variables, json.dumps(configuration), within)


class KubeletDouble:
    """See the module; `networks` are configurations of the CNI plugin by their names."""

    def __init__(
        self, api: Api, node: Node, networks: dict[str, Json], resources: dict[str, str]
    ) -> None:
        self._api, self._node, self._networks = api, node, networks
        self._resources = {"cpu": "4", "memory": "4Gi", "pods": "20", **resources}
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.pods: dict[str, Pod] = {}
        self.faults: list[str] = []

    def __enter__(self) -> Self:
        name = self._node.name
        labels = {"kubernetes.io/hostname": name, "headrace.dev/node": "true"}
        about = {"name": name, "labels": labels}
        body = {"apiVersion": "v1", "kind": "Node", "metadata": about}
        self._api.create("/api/v1/nodes", body)
        self._heartbeat()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._ending.set()
        self._thread.join()
        for pod in self.pods.values():
            pod.stop()
        self._api.delete(f"/api/v1/nodes/{self._node.name}")

    def _heartbeat(self) -> None:
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "KubeletDouble",
            "message": "a test's double of the kubelet",
            "lastHeartbeatTime": _now(),
            "lastTransitionTime": _now(),
        }
        status = {
            "capacity": self._resources,
            "allocatable": self._resources,
            "conditions": [ready],
            "addresses": [{"type": "InternalIP", "address": self._node.address}],
        }
        path = f"/api/v1/nodes/{self._node.name}"
        self._api.patch(f"{path}/status", {"status": status})
        # The controller manager marks a node that was just registered until it has been ready.
        self._api.patch(path, {"spec": {"taints": None}})

    def _run(self) -> None:
        beats = 0
        while not self._ending.wait(_EVERY_S):
            try:
                beats += 1
                if beats % 25 == 0:
                    self._heartbeat()
                self._look()
            except Exception:
                self.faults.append(traceback.format_exc())

    def _look(self) -> None:
        query = f"/api/v1/pods?fieldSelector=spec.nodeName%3D{self._node.name}"
        bodies = {body["metadata"]["uid"]: body for body in self._api.items(query)}
        for uid, body in bodies.items():
            if "deletionTimestamp" in body["metadata"]:
                self._end(uid, body)
            elif uid not in self.pods:
                self._begin(uid, body)
        for uid in set(self.pods) - set(bodies):
            self.pods.pop(uid).stop()

    def _begin(self, uid: str, body: Json) -> None:
        pod = Pod(self._node, body, self._networks)
        pod.start()
        self.pods[uid] = pod
        path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}"
        status = {"k8s.v1.cni.cncf.io/network-status": json.dumps(pod.status())}
        self._api.patch(path, {"metadata": {"annotations": status}})
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": _now()}
        containers = [
            {
                "name": one["name"],
                "image": one["image"],
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "state": {"running": {"startedAt": _now()}},
            }
            for one in body["spec"]["containers"]
        ]
        running = {"phase": "Running", "conditions": [ready], "containerStatuses": containers}
        self._api.patch(f"{path}/status", {"status": running})

    def _end(self, uid: str, body: Json) -> None:
        pod = self.pods.pop(uid, None)
        if pod is not None:
            pod.stop()
        about = body["metadata"]
        path = f"/api/v1/namespaces/{about['namespace']}/pods/{about['name']}"
        self._api.delete(f"{path}?gracePeriodSeconds=0")
