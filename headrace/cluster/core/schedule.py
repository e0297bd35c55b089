# SPDX-License-Identifier: Apache-2.0
"""What is to happen when, by name: one time for each, the last that was set."""

import heapq


class Schedule:
    """Times by name."""

    def __init__(self) -> None:
        """Nothing is to happen."""
        self._at: dict[str, float] = {}
        self._heap: list[tuple[float, str]] = []

    def set(self, name: str, at: float) -> None:
        """Something happens at a time, and not when it was said before."""
        self._at[name] = at
        heapq.heappush(self._heap, (at, name))

    def drop(self, name: str) -> None:
        """It does not happen."""
        self._at.pop(name, None)

    def due(self, now: float) -> list[str]:
        """What is to happen until `now`; it is not there afterwards."""
        found = []
        while self._heap and self._heap[0][0] <= now:
            at, name = heapq.heappop(self._heap)
            if self._at.get(name) == at:
                del self._at[name]
                found.append(name)
        return found

    def next(self) -> float | None:
        """When something happens next."""
        while self._heap and self._at.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return self._heap[0][0] if self._heap else None
