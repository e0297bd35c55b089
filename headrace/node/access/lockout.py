# SPDX-License-Identifier: Apache-2.0
"""Failed logins: whoever fails too often has to wait, longer after each further failure.

Failures are counted by user name (guesses from many places at one user) and by source address
(guesses at many users from one place; of an IPv6 address by its /64, which is one customer's). The
first five are free, then the wait doubles from a second up to a minute, so that one name or one
address gets at most a guess a minute. A login that succeeds clears the name's count, and a quarter
of an hour without failures any. Nobody is locked out for good, since anybody could then lock out
the administrators; these have the Unix socket, where nothing is counted.
"""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from headrace.node.access.peers import peer_of

FREE = 5
LONGEST_S = 60.0
FORGOTTEN_S = 900.0
_KEPT = 10_000
"""Names and addresses that are remembered; beyond that the one that failed least recently goes."""


@dataclass
class _Count:
    failures: int
    last: float

    def until(self) -> float:
        """When the next attempt is allowed."""
        beyond = self.failures - FREE
        return self.last + min(2.0 ** min(beyond, 16), LONGEST_S) if beyond >= 0 else self.last


class Lockout:
    """The failed logins of one node; they are not kept over a restart."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts: OrderedDict[tuple[str, str], _Count] = OrderedDict()

    def wait_s(self, name: str, source: str) -> int:
        """Whole seconds until this name may be tried from this address; 0: now."""
        now = self._clock()
        waits = [0.0]
        for key in _keys(name, source):
            count = self._counts.get(key)
            if count is not None and now - count.last < FORGOTTEN_S:
                waits.append(count.until() - now)
        return math.ceil(max(waits))

    def failed(self, name: str, source: str) -> None:
        """Counts a failure."""
        now = self._clock()
        for key in _keys(name, source):
            count = self._counts.pop(key, None)
            if count is None or now - count.last >= FORGOTTEN_S:
                count = _Count(0, now)
            self._counts[key] = _Count(count.failures + 1, now)
        while len(self._counts) > _KEPT:
            self._counts.popitem(last=False)

    def succeeded(self, name: str) -> None:
        """Forgets the failures of a name; those of the address stay."""
        self._counts.pop(("name", name), None)


def _keys(name: str, source: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return ("name", name), ("from", peer_of(source))
