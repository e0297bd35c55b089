# SPDX-License-Identifier: Apache-2.0
"""The rules of a chain in a switch, from port to port."""

from collections.abc import Sequence

ENTRY, EXIT = 1, 2
LENGTHS: Sequence[int] = (1, 2, 3, 5, 10)
LONGEST = 30
"""The maximum: a shared-memory group has ports for this many VNFs of two ports."""


def port_in(vnf: int) -> int:
    """Number of the port on which a VNF (from 0) receives."""
    return 10 + 2 * vnf


def port_out(vnf: int) -> int:
    """Number of the port on which it sends."""
    return 11 + 2 * vnf


def hops(length: int) -> list[tuple[int, int]]:
    """(input, output) ports of each rule from the entry through `length` VNFs to the exit."""
    stations = [(port_in(vnf), port_out(vnf)) for vnf in range(length)]
    sources = [ENTRY, *(out for _, out in stations)]
    targets = [*(into for into, _ in stations), EXIT]
    return list(zip(sources, targets, strict=True))


def rules(length: int, *, match: str = "") -> list[str]:
    """The chain in ovs-ofctl's syntax; `match` is added to the match on the port."""
    asked = f",{match}" if match else ""
    return [f"in_port={a}{asked},actions=output:{b}" for a, b in hops(length)]


def parse_lengths(text: str) -> list[int]:
    """Lengths from a comma-separated list, sorted, without duplicates.

    Raises:
        ValueError: one is not a number from 1 to 30, or there is none.
    """
    found = set()
    for word in filter(None, (part.strip() for part in text.split(","))):
        if not word.isdecimal() or not 1 <= int(word) <= LONGEST:
            raise ValueError(f"--lengths: {word!r} is not a number from 1 to {LONGEST}")
        found.add(int(word))
    if not found:
        raise ValueError("--lengths: give at least one, as in 1,2,5")
    return sorted(found)
