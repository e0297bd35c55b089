# SPDX-License-Identifier: Apache-2.0
"""When a node is lost, and when it is trusted again.

A node is lost when it has not answered for `down_s`, and at least `failures` times. One that comes
back has to answer for `up_s` without a gap before it gets anything new; each further loss doubles
that time, up to `longest_s`, until the node has been up for `forget_s`. So a node that comes and
goes moves its graphs once, and not at each return.
"""

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True)
class HoldDown:
    """Times in seconds."""

    down_s: float = 6.0
    failures: int = 3
    up_s: float = 30.0
    longest_s: float = 600.0
    forget_s: float = 3600.0


class State(Enum):
    """What is known of a node."""

    NEW = "Unknown"
    UP = "Ready"
    MISSING = "NotAnswering"
    LOST = "Lost"
    RETURNING = "Returning"


@dataclass
class Health:
    """One node's; `since` is the time of the last change of state."""

    hold: HoldDown
    state: State = State.NEW
    since: float = 0.0
    why: str = "it was not asked yet"
    failing_since: float | None = None
    failed: int = 0
    losses: int = 0

    @property
    def answers(self) -> bool:
        """Whether it can be given work for graphs that it has already."""
        return self.state in (State.UP, State.MISSING, State.RETURNING)

    @property
    def wait_s(self) -> float:
        """How long it has to answer after a loss."""
        doubled = self.hold.up_s * 2 ** max(0, self.losses - 1)
        return float(min(self.hold.longest_s, doubled))

    def probed(self, ok: bool, why: str, now: float) -> bool:
        """The result of a probe; returns whether the state has changed."""
        before = self.state
        if ok:
            self._answered(now)
        else:
            self._silent(why, now)
        if self.state is not before:
            self.since = now
        return self.state is not before

    def _answered(self, now: float) -> None:
        self.failing_since, self.failed = None, 0
        if self.state is State.NEW or self.state is State.MISSING:
            self.state, self.why = State.UP, "it answers"
        elif self.state is State.LOST:
            self.state = State.RETURNING
            self.why = f"it answers again; it gets graphs after {self.wait_s:g} s without a gap"
        elif self.state is State.RETURNING and now - self.since >= self.wait_s:
            self.state, self.why = State.UP, "it answers"
        elif self.state is State.UP and self.losses and now - self.since >= self.hold.forget_s:
            self.losses = 0

    def _silent(self, why: str, now: float) -> None:
        if self.failing_since is None:
            self.failing_since = now
        self.failed += 1
        self.why = why
        if self.state is State.LOST:
            return
        if self.state is State.RETURNING:
            self.state = State.LOST  # the waiting begins anew, and is not longer for that
            return
        if self.state is State.UP:
            self.state = State.MISSING
        gone = now - self.failing_since
        if gone >= self.hold.down_s and self.failed >= self.hold.failures:
            self.state, self.losses = State.LOST, self.losses + 1
