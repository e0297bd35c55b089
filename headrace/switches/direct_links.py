# SPDX-License-Identifier: Apache-2.0
"""Direct links, which a switch may make between two VNF ports, past itself."""

from typing import Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict


class DirectLink(BaseModel):
    """What leaves `port` for another VNF's port without passing the switch.

    `to` is that port, None if nothing goes directly, for which `reason` says why. `packets` and
    `bytes` are those that went directly since the port was made; they are in its counters, too.
    """

    model_config = ConfigDict(frozen=True)

    lsi: str
    port: str
    to: str | None
    state: str
    packets: int
    bytes: int
    reason: str | None


@runtime_checkable
class HasDirectLinks(Protocol):
    """A switch driver whose switch makes direct links."""

    async def direct_links(self) -> list[DirectLink]:
        """One for each port that could have a direct link.

        Raises:
            SwitchError: the switch does not answer.
        """
        ...
