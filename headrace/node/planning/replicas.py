# SPDX-License-Identifier: Apache-2.0
"""How many replicas a VNF may have, when that changes, and how many it has."""

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, model_validator

_MAX_REPLICAS = 16
Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=86_400)]


class Scaling(BaseModel):
    """The limits of a VNF's replicas and when they change.

    The load of a VNF is the share of time in which it works on packets (its busy share). If the
    mean over its replicas is at least `up` for `for_s`, one is added; if it is at most `down` for
    as long, one drains. After a change nothing changes for `cool_down_s`. A draining replica goes
    when no packet has come to it for `quiet_s`, at the latest after `drain_s` (0: never before
    that), when flows that it still has move to others. `stateless`: flows may move at any time, so
    switches that do not remember flows serve, too.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)

    min_replicas: Annotated[int, Field(ge=1, le=_MAX_REPLICAS)] = Field(1, alias="min-replicas")
    max_replicas: Annotated[int, Field(ge=1, le=_MAX_REPLICAS)] = Field(alias="max-replicas")
    up: Share = 0.8
    down: Share = 0.3
    for_s: Seconds = Field(3.0, alias="for-s")
    cool_down_s: Seconds = Field(10.0, alias="cool-down-s")
    quiet_s: Seconds = Field(30.0, alias="quiet-s")
    drain_s: Seconds = Field(0.0, alias="drain-s")
    stateless: bool = False

    @model_validator(mode="after")
    def _are_apart(self) -> "Scaling":
        if self.max_replicas < self.min_replicas:
            raise ValueError("max-replicas is less than min-replicas")
        if self.down >= self.up:
            raise ValueError("down must be below up, or replicas would come and go all the time")
        return self


class Replicas(BaseModel):
    """How many replicas of a VNF take new flows, and how many more drain."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    serving: int = 1
    draining: int = 0

    @property
    def all(self) -> int:
        """How many run."""
        return self.serving + self.draining
