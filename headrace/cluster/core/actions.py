# SPDX-License-Identifier: Apache-2.0
"""What the core wants done at nodes, how that ended, and what it tells of it."""

from dataclasses import dataclass
from enum import Enum
from typing import Literal

from headrace.cluster.cutting.cut import Document

PART_PREFIX = "sg-"
"""Graphs of a node whose identifier begins so are parts; the rest is the UID of the whole."""


def part_id(uid: str) -> str:
    """The identifier of a graph's parts at the nodes."""
    return f"{PART_PREFIX}{uid}"


@dataclass(frozen=True)
class Part:
    """A document for a node, and its digest."""

    digest: str
    document: Document


@dataclass(frozen=True)
class Put:
    """Deploy or update a part: PUT /NF-FG/{id}."""

    node: str
    uid: str
    part: Part


@dataclass(frozen=True)
class Delete:
    """Remove a part: DELETE /NF-FG/{id}; one that is not there is removed."""

    node: str
    uid: str


@dataclass(frozen=True)
class TakeStock:
    """Find out which parts a node has: GET /NF-FG."""

    node: str
    number: int


@dataclass(frozen=True)
class Look:
    """Find out which parts a node has and whether they work: GET /node/graphs."""

    node: str
    number: int


Action = Put | Delete | TakeStock | Look


class Result(Enum):
    """How an action ended."""

    DONE = "done"
    REFUSED = "refused"
    """The node refused what was asked (4xx): nothing has changed."""
    FAILED = "failed"
    """No answer, or the node failed (5xx): what the node has is not known."""


@dataclass(frozen=True)
class Outcome:
    """Of an action.

    Attributes:
        stock: after TakeStock, the digests of the node's parts by UID.
        faults: after Look, of each of its parts what does not work, or "".
    """

    result: Result
    message: str = ""
    stock: dict[str, str] | None = None
    faults: dict[str, str] | None = None


@dataclass(frozen=True)
class Event:
    """Something to tell of a graph (by UID) or a node (by name)."""

    kind: Literal["graph", "node"]
    subject: str
    level: Literal["Normal", "Warning"]
    reason: str
    message: str
