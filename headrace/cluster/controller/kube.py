# SPDX-License-Identifier: Apache-2.0
"""What the controller asks of the API server, by the official client."""

import base64
import json
import os
import socket
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from aiohttp import ClientError

from headrace.cluster.core.actions import Event
from headrace.cluster.resources import GRAPHS, GROUP, NODES, VERSION
from headrace.cluster.scheduling.pods import VNF_LABEL

Body = dict[str, Any]
COMPONENT = "headrace-controller"
MESSAGE_LENGTH = 1000


class Cluster(Protocol):
    """The API server, as far as the driver needs it."""

    async def graphs(self) -> list[Body]:
        """All ServiceGraphs."""
        ...

    async def nodes(self) -> list[Body]:
        """All HeadraceNodes."""
        ...

    async def vnf_pods(self) -> list[Body]:
        """All pods with the label of VNFs."""
        ...

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """The data of a Secret."""
        ...

    async def write_status(self, body: Body, status: Body) -> None:
        """Writes the status of an object; one that is gone is none of ours any more."""
        ...

    async def post_event(self, body: Body, event: Event) -> None:
        """Posts an event about an object."""
        ...


class KubernetesCluster:
    """A real one; the configuration is that of the pod, or else kubectl's."""

    def __init__(self, api: Any) -> None:
        """`api` is a kubernetes.aio.client.ApiClient; `connect` makes one."""
        from kubernetes.aio import client

        self._api = api
        self._custom = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)
        self._leases = client.CoordinationV1Api(api)

    @staticmethod
    async def connect() -> "KubernetesCluster":
        """A client of the cluster in which this pod is, or of kubectl's current context.

        Raises:
            kubernetes.aio.config.ConfigException: there is no configuration.
        """
        from kubernetes.aio import client, config

        if "KUBERNETES_SERVICE_HOST" in os.environ:
            config.load_incluster_config()
        else:
            await config.load_kube_config(config_file=os.environ.get("KUBECONFIG") or None)
        return KubernetesCluster(client.ApiClient())

    async def close(self) -> None:
        """Ends its connections."""
        await self._api.close()

    async def graphs(self) -> list[Body]:
        """All ServiceGraphs."""
        return await self._all(GRAPHS)

    async def nodes(self) -> list[Body]:
        """All HeadraceNodes."""
        return await self._all(NODES)

    async def _all(self, plural: str) -> list[Body]:
        found: list[Body] = []
        token: str | None = None
        while True:
            more = {"_continue": token} if token else {}
            answer = await self._custom.list_cluster_custom_object(
                GROUP, VERSION, plural, limit=500, **more
            )
            found += answer["items"]
            token = answer["metadata"].get("continue")
            if not token:
                return found

    async def vnf_pods(self) -> list[Body]:
        """All pods with the label of VNFs.

        Raises:
            OSError: they can't be read.
        """
        answer = await self._core.list_pod_for_all_namespaces_without_preload_content(
            label_selector=VNF_LABEL
        )
        body = await answer.read()
        if answer.status != 200:
            raise OSError(f"pods: {answer.status} {answer.reason}")
        return list(json.loads(body)["items"])

    async def pod(self, namespace: str, name: str) -> Body:
        """A pod.

        Raises:
            OSError: it can't be read.
        """
        call = self._core.read_namespaced_pod_without_preload_content(name, namespace)
        status, text = await _answer(f"pod {namespace}/{name}", call)
        if status != 200:
            raise OSError(f"pod {namespace}/{name}: {status} {text[:MESSAGE_LENGTH]}")
        return dict(json.loads(text))

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        """Gives a pod its node, if it is the one of that UID.

        Raises:
            OSError: that is refused, or the outcome is not known.
        """
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        call = self._core.create_namespaced_pod_binding_without_preload_content(
            name, namespace, body
        )
        status, text = await _answer(f"pod {namespace}/{name}", call)
        if status not in (200, 201):
            raise OSError(f"pod {namespace}/{name}: {status} {text[:MESSAGE_LENGTH]}")

    def lease(self, namespace: str, name: str) -> "KubernetesLease":
        """A Lease, which may not be there yet."""
        return KubernetesLease(self._leases, namespace, name)

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """The data of a Secret.

        Raises:
            OSError: it can't be read.
        """
        from kubernetes.aio.client import ApiException

        try:
            found = await self._core.read_namespaced_secret(name, namespace)
        except ApiException as error:
            raise OSError(f"Secret {namespace}/{name}: {error.reason}") from error
        return {key: base64.b64decode(value) for key, value in (found.data or {}).items()}

    async def write_status(self, body: Body, status: Body) -> None:
        """Writes the status of an object (RFC 7396 merge patch; lists are replaced)."""
        from kubernetes.aio.client import ApiException

        about = body["metadata"]
        patch = {"status": status}
        try:
            if "namespace" in about:
                await self._custom.patch_namespaced_custom_object_status(
                    GROUP, VERSION, about["namespace"], GRAPHS, about["name"], patch,
                    _content_type="application/merge-patch+json",
                )  # fmt: skip
            else:
                await self._custom.patch_cluster_custom_object_status(
                    GROUP, VERSION, NODES, about["name"], patch,
                    _content_type="application/merge-patch+json",
                )  # fmt: skip
        except ApiException as error:
            if error.status != 404:
                raise OSError(f"{about['name']}: {error.status} {error.reason}") from error

    async def post_event(self, body: Body, event: Event) -> None:
        """Posts an event about an object; those of cluster objects go to `default`."""
        from kubernetes.aio.client import ApiException

        about = body["metadata"]
        namespace = about.get("namespace", "default")
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        posted = {
            "metadata": {"generateName": f"{about['name'][:50]}.", "namespace": namespace},
            "involvedObject": {
                "apiVersion": body["apiVersion"],
                "kind": body["kind"],
                "name": about["name"],
                "namespace": about.get("namespace", ""),
                "uid": about["uid"],
            },
            "type": event.level,
            "reason": event.reason,
            "message": event.message[:MESSAGE_LENGTH],
            "action": event.reason,
            "eventTime": now,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
            "reportingComponent": COMPONENT,
            "reportingInstance": socket.gethostname()[:128],
            "source": {"component": COMPONENT},
        }
        try:
            await self._core.create_namespaced_event(namespace, posted)
        except ApiException as error:
            raise OSError(f"{about['name']}: {error.status} {error.reason}") from error


class KubernetesLease:
    """A Lease at the API server."""

    def __init__(self, api: Any, namespace: str, name: str) -> None:
        """`api` is a kubernetes.aio.client.CoordinationV1Api."""
        self._api, self._namespace, self._name = api, namespace, name
        self._subject = f"Lease {namespace}/{name}"

    async def read(self) -> Body | None:
        """The object; None: there is none.

        Raises:
            OSError: it can't be read.
        """
        call = self._api.read_namespaced_lease_without_preload_content(self._name, self._namespace)
        status, text = await _answer(self._subject, call)
        if status == 404:
            return None
        self._check(status, text)
        return dict(json.loads(text))

    async def create(self, spec: Body) -> bool:
        """Makes the object; False: there is one.

        Raises:
            OSError: the outcome is not known, or there is no such namespace.
        """
        about = {"name": self._name, "namespace": self._namespace}
        body = {**_LEASE, "metadata": about, "spec": spec}
        call = self._api.create_namespaced_lease_without_preload_content(self._namespace, body)
        status, text = await _answer(self._subject, call)
        if status == 409:
            return False
        self._check(status, text)
        return True

    async def replace(self, body: Body) -> bool:
        """Writes the object; False: it has changed since it was read, or is gone.

        Raises:
            OSError: the outcome is not known.
        """
        about = {
            "name": self._name,
            "namespace": self._namespace,
            "uid": body["metadata"]["uid"],
            "resourceVersion": body["metadata"]["resourceVersion"],
        }
        written = {**_LEASE, "metadata": about, "spec": body["spec"]}
        call = self._api.replace_namespaced_lease_without_preload_content(
            self._name, self._namespace, written
        )
        status, text = await _answer(self._subject, call)
        if status in (404, 409):
            return False
        self._check(status, text)
        return True

    def _check(self, status: int, text: str) -> None:
        if status not in (200, 201):
            raise OSError(f"{self._subject}: {status} {text[:MESSAGE_LENGTH]}")


_LEASE = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}


async def _answer(subject: str, call: Any) -> tuple[int, str]:
    """Status and text of an answer; OSError: there is none."""
    try:
        answer = await call
        return int(answer.status), (await answer.read()).decode(errors="replace")
    except ClientError as error:
        raise OSError(f"{subject}: {error}") from error
