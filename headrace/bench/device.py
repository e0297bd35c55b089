# SPDX-License-Identifier: Apache-2.0
"""The bench's interface to a device under test: runs one trial at one load.

The real device is a graph on a node with a generator attached (`attached.py`), the simulated one
(`simulated.py`) a capacity with a loss law; search, plan, statistics, store and report work on
either, and are tested with the simulated one.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from headrace.results import Case, Purpose, Trial

Event = Literal["reset", "reconfigure"]
"""A reset ends the switch's process, which the node starts again; a reconfiguration adds rules to
the graph and removes them."""
EVENT_AFTER = 0.25
"""Share of a trial after which its event happens."""


@dataclass(frozen=True)
class TrialRequest:
    """One trial to run.

    Attributes:
        round: number of the round, for the record.
        purpose: its reason; for `cost` the switch's busy cycles are read before and after it.
        duration_s: seconds of sending.
        load_pps: packets per second over all streams; None as fast as the generator can.
        late_bound_us: a packet that the port refuses for longer is unsent; None: the default.
        drain_s: how long to wait for the last packets; None: the device's default.
        event: what happens to the switch while it forwards.
        interleaved: it is one of many short trials in turn with those of other cases, so it is
            neither waited for nor repeated: a pause between two trials of a pair costs more than
            it saves, and the median of the pairs leaves disturbed ones out.
        until_loss: it may end once a packet is known to be lost or unsent, since a goal without
            loss is missed then, however much longer it sends (RFC 2544, Section 26.1). A device
            that can't tell before the end sends for the whole duration.
    """

    round: int
    purpose: Purpose
    duration_s: float
    load_pps: float | None
    late_bound_us: float | None = None
    drain_s: float | None = None
    event: Event | None = None
    interleaved: bool = False
    until_loss: bool = False


class Device(Protocol):
    """A deployed case."""

    @property
    def case(self) -> Case:
        """The deployed case."""

    @property
    def ceiling_pps(self) -> float:
        """The highest load that the generator can send on this kind of port."""

    async def trial(self, request: TrialRequest) -> Trial:
        """Runs one trial.

        Raises:
            DeviceError: it could not be run.
        """
