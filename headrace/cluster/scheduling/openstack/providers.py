# SPDX-License-Identifier: Apache-2.0
"""Nodes as resource providers of OpenStack's Placement: what they have, and what graphs took.

A provider `headrace-NODE` with the trait CUSTOM_HEADRACE stands below the compute host NODE, if
Placement has that. What graphs have taken is reserved, so that instances are not overbooked.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import httpx

from headrace.cluster.scheduling.cost import NodeState

TRAIT = "CUSTOM_HEADRACE"
PREFIX = "headrace-"
MICROVERSION = "placement 1.39"
CORES, SWITCH, MEMORY, LINK = (
    f"CUSTOM_HEADRACE_{name}" for name in ("VNF_CORE", "SWITCH_MCORE", "MEMORY_MB", "LINK_MBPS")
)
CLASSES = (CORES, SWITCH, MEMORY, LINK)


class PlacementError(Exception):
    """Placement refused something; the message has its reason."""


@dataclass
class Synced:
    """What was done, by names of nodes; `kept` are nodes that are gone and still have instances."""

    created: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)


def inventories(node: NodeState) -> dict[str, dict[str, Any]]:
    """What a node has, and what of it is reserved, in integers."""
    spec, used = node.spec, node.used
    amounts = {
        CORES: (spec.resources.cores, used.get("cores", 0.0)),
        SWITCH: (
            1000 * spec.resources.switch_cores * spec.model.max_load,
            1000 * used.get("switchCores", 0.0),
        ),
        MEMORY: (spec.resources.memory_mb, used.get("memoryMb", 0.0)),
        LINK: (1000 * spec.resources.link_gbps, 1000 * used.get("linkGbps", 0.0)),
    }
    found = {}
    for name, (total, taken) in amounts.items():
        whole = math.floor(total)
        if whole >= 1:
            reserved = whole if not node.ready else min(whole, math.ceil(taken))
            found[name] = {"total": whole, "reserved": reserved, "allocation_ratio": 1.0}
    return found


class Providers:
    """The resource providers of all nodes."""

    def __init__(self, client: httpx.AsyncClient, token: str) -> None:
        """`client` has Placement's address; `token` is Keystone's."""
        self._client = client
        self._headers = {"X-Auth-Token": token, "OpenStack-API-Version": MICROVERSION}
        self._prepared = False

    async def sync(self, nodes: Mapping[str, NodeState]) -> Synced:
        """Makes Placement say what the nodes are.

        Raises:
            PlacementError: it refuses.
            httpx.HTTPError: it does not answer.
        """
        await self._prepare()
        answer = await self._ask("GET", "/resource_providers")
        known = {one["name"]: one for one in answer.json()["resource_providers"]}
        done = Synced()
        for name, node in nodes.items():
            provider = known.get(f"{PREFIX}{name}")
            if provider is None:
                provider = await self._create(name, known.get(name))
                done.created.append(name)
            if await self._update(provider["uuid"], inventories(node)):
                done.updated.append(name)
        for name, provider in known.items():
            node_name = name.removeprefix(PREFIX)
            if not name.startswith(PREFIX) or node_name in nodes:
                continue
            if TRAIT not in await self._traits(provider["uuid"]):
                continue  # somebody else's
            path = f"/resource_providers/{provider['uuid']}"
            gone = await self._ask("DELETE", path, allowed=(404, 409))
            (done.kept if gone.status_code == 409 else done.deleted).append(node_name)
        return done

    async def _prepare(self) -> None:
        if self._prepared:
            return
        for name in CLASSES:
            await self._ask("PUT", f"/resource_classes/{name}")
        await self._ask("PUT", f"/traits/{TRAIT}")
        self._prepared = True

    async def _create(self, name: str, host: Mapping[str, Any] | None) -> Mapping[str, Any]:
        body = {"name": f"{PREFIX}{name}"}
        if host is not None:
            body["parent_provider_uuid"] = host["uuid"]
        made = await self._ask("POST", "/resource_providers", body)
        provider: Mapping[str, Any] = made.json()
        traits = {"resource_provider_generation": provider["generation"], "traits": [TRAIT]}
        await self._ask("PUT", f"/resource_providers/{provider['uuid']}/traits", traits)
        return provider

    async def _traits(self, uuid: str) -> list[str]:
        answer = await self._ask("GET", f"/resource_providers/{uuid}/traits")
        return list(answer.json()["traits"])

    async def _update(self, uuid: str, wanted: Mapping[str, Mapping[str, Any]]) -> bool:
        path = f"/resource_providers/{uuid}/inventories"
        there = (await self._ask("GET", path)).json()
        same = there["inventories"].keys() == wanted.keys() and all(
            there["inventories"][name][key] == value
            for name, one in wanted.items()
            for key, value in one.items()
        )
        if same:
            return False
        generation = there["resource_provider_generation"]
        body = {"resource_provider_generation": generation, "inventories": wanted}
        await self._ask("PUT", path, body)
        return True

    async def _ask(
        self, method: str, path: str, body: Any = None, allowed: tuple[int, ...] = ()
    ) -> httpx.Response:
        answer = await self._client.request(method, path, json=body, headers=self._headers)
        if not answer.is_success and answer.status_code not in allowed:
            try:
                told = answer.json()["errors"][0]["detail"].strip()
            except (ValueError, KeyError, IndexError):
                told = answer.text[:200]
            raise PlacementError(f"{method} {path}: {answer.status_code} {told}")
        return answer
