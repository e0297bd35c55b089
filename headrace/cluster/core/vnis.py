# SPDX-License-Identifier: Apache-2.0
"""VXLAN network identifiers (RFC 7348, 24 bits) of the links of all graphs."""

from collections.abc import Iterable

MOST = (1 << 24) - 1


class NoVni(Exception):
    """The range is used up."""


class Vnis:
    """A range of numbers, each given to one link at a time.

    A number that is given back is not given again before all others were, so that packets still on
    their way to a tunnel that is gone don't reach another graph.
    """

    def __init__(self, first: int = 0x100000, last: int = MOST) -> None:
        """All numbers from `first` to `last` are free.

        Raises:
            ValueError: the range is empty or not of 24 bits.
        """
        if not 1 <= first <= last <= MOST:
            raise ValueError(f"VNIs {first} to {last}: not within 1 to {MOST}")
        self.first, self.last = first, last
        self._next = first
        self._used: set[int] = set()

    def __len__(self) -> int:
        return len(self._used)

    def take(self) -> int:
        """A free number.

        Raises:
            NoVni: there is none.
        """
        if len(self._used) > self.last - self.first:
            raise NoVni(f"all VNIs from {self.first} to {self.last} are in use")
        while self._next in self._used:
            self._advance()
        vni = self._next
        self._used.add(vni)
        self._advance()
        return vni

    def claim(self, vni: int) -> bool:
        """Takes a certain number, that of a link that exists; False if it is in use."""
        if vni in self._used or not 1 <= vni <= MOST:
            return False
        self._used.add(vni)
        return True

    def free(self, vnis: Iterable[int]) -> None:
        """Gives numbers back."""
        self._used.difference_update(vnis)

    def _advance(self) -> None:
        self._next = self.first if self._next >= self.last else self._next + 1
