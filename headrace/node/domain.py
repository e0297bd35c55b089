# SPDX-License-Identifier: Apache-2.0
"""The node's description for an orchestrator, and its delivery whenever it changes.

The document is that of the original node (`netgroup-domain:informations`), but says what is free
now. It is sent by POST to `orchestrator.url` of node.yaml at start and after each event that
changes it; changes in quick succession go as one, and what cannot be delivered is sent again, as it
is then, less and less often down to once a minute.
"""

import asyncio
import contextlib
import logging
from typing import Any

import httpx

from headrace.node.config import OrchestratorConfig
from headrace.node.events import Event
from headrace.node.node import Node

log = logging.getLogger("headrace.node")

_GATHER_S = 0.5
_TIMEOUT_S = 10.0
_LONGEST_WAIT_S = 60.0


def description_of(node: Node, address: str) -> dict[str, Any]:
    """The document; `address` is where the REST API is, HOST:PORT."""
    report = node.inventory().report()
    cores, memory = report["cores"], report["memory_mb"]
    free = [core for core in cores if "vnf" in core["roles"] and not core["polling"]]
    return {
        "netgroup-domain:informations": {
            "id": node.prefix,
            "name": node.config.name,
            "type": "universal_node",
            "management-address": address,
            "hardware-informations": {
                "resources": {
                    "cpu": {"number": len(cores), "free": len(free)},
                    "memory": {"size": memory["total"], "free": memory["free"]},
                },
                "interfaces": {
                    "interface": [
                        {"index": index, "name": name, "config": {"enabled": True}}
                        for index, name in enumerate(node.ports)
                    ]
                },
            },
            "capabilities": {
                "infrastructural-capabilities": {
                    "infrastructural-capability": [
                        {"type": kind, "name": kind} for kind in node.driver.capabilities.end_points
                    ]
                },
                "functional-capabilities": {
                    "functional-capability": [
                        {
                            "type": template.functional_capability,
                            "name": template.name,
                            "ready": True,
                            "template": template.id,
                        }
                        for template in node.datastore.templates().all()
                    ]
                },
            },
        }
    }


class Announcer:
    """Sends the description to the orchestrator; `run` until cancelled."""

    def __init__(self, node: Node, config: OrchestratorConfig, address: str) -> None:
        self._node, self._config, self._address = node, config, address
        self._changed = asyncio.Event()
        self._changed.set()
        node.events.call(self._note)

    def _note(self, _: Event) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Sends at first, and whenever something has happened."""
        if self._config.url is None:
            return
        wait_s = 0.0
        headers = {"X-Auth-Token": self._config.token} if self._config.token else {}
        # Where it goes is the operator's word alone, not a redirection's or the environment's.
        async with httpx.AsyncClient(
            timeout=_TIMEOUT_S, follow_redirects=False, trust_env=False, headers=headers
        ) as http:
            while True:
                if wait_s:
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(self._changed.wait(), wait_s)
                else:
                    await self._changed.wait()
                await asyncio.sleep(_GATHER_S)
                self._changed.clear()
                try:
                    document = description_of(self._node, self._address)
                    answer = await http.post(self._config.url, json=document)
                    answer.raise_for_status()
                    wait_s = 0.0
                except Exception as error:  # whatever it is, later ones are tried
                    wait_s = min(max(1.0, 2 * wait_s), _LONGEST_WAIT_S)
                    log.error("orchestrator %s: %s", self._config.url, error)
                    await asyncio.sleep(min(wait_s, 5.0))
