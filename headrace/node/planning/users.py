# SPDX-License-Identifier: Apache-2.0
"""The users that VNFs run as: each VNF of a node has one of its own, each graph a group.

They have no names and no entries in /etc/passwd. A node takes 4096 ids; the ranges of nodes follow
each other from 1 879 048 192 up to 2 147 483 647, which distributions and systemd leave unused
(systemd's UIDS-GIDS).
"""

from collections.abc import Collection
from dataclasses import dataclass

from headrace.machine.names import digest_of
from headrace.node.errors import GraphRefused

_FIRST = 1_879_048_192
_VNFS, _GRAPHS = 2559, 1536
_IDS = _VNFS + _GRAPHS + 1


@dataclass(frozen=True)
class Users:
    """The ids of the node with this prefix."""

    prefix: str

    @property
    def first(self) -> int:
        """The first id of the node."""
        return _FIRST + int(digest_of(self.prefix, size=2), 16) * _IDS

    @property
    def node_group(self) -> int:
        """The group of all VNFs of the node."""
        return self.first + _IDS - 1

    def group(self, number: int) -> int:
        """The group of the node's graph number `number`, from 1.

        Raises:
            GraphRefused: there are too many graphs.
        """
        if number > _GRAPHS:
            raise GraphRefused("resources", f"the node has ids for {_GRAPHS} graphs; delete one")
        return self.first + _VNFS + number - 1

    def free(self, taken: Collection[int | None], place: str) -> int:
        """The smallest id that is not in `taken`, a set.

        Raises:
            GraphRefused: there is none left.
        """
        for user in range(self.first, self.first + _VNFS):
            if user not in taken:
                return user
        raise GraphRefused("resources", f"{place}: the node has ids for {_VNFS} VNFs; delete some")
