# SPDX-License-Identifier: Apache-2.0
"""What pods have been bound to and the API server's list may not tell yet.

A reservation is made before the API server is asked to bind, and ends with a list that was asked
for after its answer: such a list has the pod on its node, or the pod is not there. So none counts
too short or for ever, whatever the clocks and however long calls take.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headrace.cluster.scheduling.cost import VnfDemand


class NotBound(Exception):
    """A pod can't be bound to a node; the message says why."""


@dataclass
class Reservation:
    """What a pod takes of a node; `answered`: the API server has bound it, refused, or failed."""

    uid: str
    node: str
    demand: VnfDemand
    answered: bool = False


class Reservations:
    """All that count."""

    def __init__(self) -> None:
        """None."""
        self._held: dict[tuple[str, str], Reservation] = {}
        self._seen: set[str] = set()

    def make(self, uid: str, node: str, demand: VnfDemand) -> Reservation:
        """A pod is about to be bound; a reservation of it at this node from before is replaced."""
        made = Reservation(uid, node, demand)
        self._held[uid, node] = made
        return made

    def answered(self) -> list[Reservation]:
        """Those that a list which is asked for from now on settles."""
        return [one for one in self._held.values() if one.answered]

    def listed(self, settled: Sequence[Reservation], pods: Sequence[Mapping[str, Any]]) -> None:
        """A list has come; `settled` are those that were answered before it was asked for."""
        for one in settled:
            if self._held.get((one.uid, one.node)) is one:
                del self._held[one.uid, one.node]
        self._seen = {
            str(pod["metadata"].get("uid", "")) for pod in pods if pod["spec"].get("nodeName")
        }

    def counting(self, besides: str = "") -> Iterator[tuple[str, VnfDemand]]:
        """Nodes and demands that the last list does not have, but for those of one pod."""
        for one in self._held.values():
            if one.uid not in self._seen and one.uid != besides:
                yield one.node, one.demand
