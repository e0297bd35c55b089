# SPDX-License-Identifier: Apache-2.0
"""What the controller asks of the API server, by the official client."""

import base64
import json
from collections.abc import Mapping
from typing import Any, Protocol

from headrace.cluster.resources import GRAPHS, GROUP, NODES, VERSION
from headrace.cluster.scheduling.pods import VNF_LABEL

Body = dict[str, Any]


class Cluster(Protocol):
    """The API server, as far as the driver needs it."""

    async def graphs(self) -> list[Body]:
        """All ServiceGraphs."""
        ...

    async def nodes(self) -> list[Body]:
        """All HeadraceNodes."""
        ...

    async def secret(self, namespace: str, name: str) -> Mapping[str, bytes]:
        """The data of a Secret."""
        ...

    async def write_status(self, body: Body, status: Body) -> None:
        """Replaces the status of an object; one that is gone is none of ours any more."""
        ...


class KubernetesCluster:
    """A real one; the configuration is that of the pod, or else kubectl's."""

    def __init__(self, api: Any) -> None:
        """`api` is a kubernetes.aio.client.ApiClient; `connect` makes one."""
        from kubernetes.aio import client

        self._api = api
        self._custom = client.CustomObjectsApi(api)
        self._core = client.CoreV1Api(api)

    @staticmethod
    async def connect() -> "KubernetesCluster":
        """A client of the cluster in which this pod is, or of kubectl's current context.

        Raises:
            kubernetes.aio.config.ConfigException: there is no configuration.
        """
        from kubernetes.aio import client, config

        await config.load_config()
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
        """All pods with the label of VNFs."""
        answer = await self._core.list_pod_for_all_namespaces_without_preload_content(
            label_selector=VNF_LABEL
        )
        return list(json.loads(await answer.read())["items"])

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
