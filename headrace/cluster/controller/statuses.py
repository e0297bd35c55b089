# SPDX-License-Identifier: Apache-2.0
"""Statuses as objects of the API server have them, from what the core reports."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.cluster.core.reports import Condition
from headrace.cluster.core.settings import Recorded
from headrace.cluster.cutting.cut import Link

MESSAGE_LENGTH = 1024


def conditions(
    found: Iterable[Condition], before: Iterable[Mapping[str, Any]], generation: int
) -> list[dict[str, Any]]:
    """Conditions with the times of their last changes; those before are given."""
    earlier = {str(one.get("type")): one for one in before}
    made = []
    for one in found:
        status = {True: "True", False: "False", None: "Unknown"}[one.status]
        last = earlier.get(one.type, {})
        changed = last.get("status") != status or "lastTransitionTime" not in last
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        made.append(
            {
                "type": one.type,
                "status": status,
                "observedGeneration": generation,
                "lastTransitionTime": now if changed else last["lastTransitionTime"],
                "reason": one.reason,
                "message": one.message[:MESSAGE_LENGTH],
            }
        )
    return made


def recorded(status: Mapping[str, Any]) -> Recorded | None:
    """The placement that a status of a ServiceGraph tells of; None: none."""
    where = {f"vnf:{one['name']}": str(one["node"]) for one in status.get("vnfs", [])}
    where |= {f"endpoint:{one['name']}": str(one["node"]) for one in status.get("endPoints", [])}
    if not where:
        return None
    links = {}
    for one in status.get("links", []):
        ports, nodes = one["ports"], one["nodes"]
        link = Link((ports[0], ports[1]), (nodes[0], nodes[1]), one.get("queue", ""))
        links[link] = int(one["vni"])
    return Recorded(where, links, int(status.get("migrations", 0)))
