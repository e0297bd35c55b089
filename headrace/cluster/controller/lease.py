# SPDX-License-Identifier: Apache-2.0
"""Which controller is active: the one that holds a Lease (coordination.k8s.io/v1).

It is the procedure of client-go's leaderelection, which Kubernetes' own controllers follow: the
holder renews the Lease; others take it when it was not renewed for its duration by their own clocks
since they have seen it change; who cannot renew it ends before that time is over. Clocks need not
agree on the time, only on how long a second is.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

_log = logging.getLogger(__name__)

Body = dict[str, Any]


class LeaseApi(Protocol):
    """One Lease at the API server."""

    async def read(self) -> Body | None:
        """The object; None: there is none. OSError: it can't be read."""
        ...

    async def create(self, spec: Body) -> bool:
        """Makes the object; False: there is one. OSError: the outcome is not known."""
        ...

    async def replace(self, body: Body) -> bool:
        """Writes the object; False: it has changed since it was read. OSError: as before."""
        ...


@dataclass(frozen=True)
class Terms:
    """How long a Lease counts, in seconds.

    Attributes:
        duration_s: after it was renewed; whole seconds, since the object has them.
        deadline_s: its holder ends after so long without renewing it.
        retry_s: between two attempts.
    """

    duration_s: int = 15
    deadline_s: float = 10.0
    retry_s: float = 2.0

    def __post_init__(self) -> None:
        """Refuses terms by which two could hold it at once."""
        if not 0 < self.retry_s < self.deadline_s < self.duration_s:
            raise ValueError("a Lease needs retry_s < deadline_s < duration_s")


class Election:
    """One candidate."""

    def __init__(
        self,
        api: LeaseApi,
        identity: str,
        terms: Terms | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`identity` is another for each candidate."""
        self._api, self.identity, self._clock = api, identity, clock
        self.terms = terms or Terms()
        self._seen: tuple[Any, ...] | None = None
        self._seen_at = 0.0
        self._renewed_at = 0.0

    async def acquire(self) -> None:
        """Waits until this candidate holds the Lease."""
        waiting = ""
        while True:
            try:
                holder = await self._attempt()
            except OSError as error:
                _log.warning("Lease: %s", error)
            else:
                if holder == self.identity:
                    _log.info("active: %s holds the Lease", self.identity)
                    return
                if holder != waiting:
                    _log.info("standing by: %s is active", holder)
                waiting = holder
            await asyncio.sleep(self.terms.retry_s)

    async def keep(self) -> str:
        """Renews the Lease until that fails for too long, or another has it; returns why."""
        while True:
            left = self._renewed_at + self.terms.deadline_s - self._clock()
            await asyncio.sleep(max(0.0, min(self.terms.retry_s, left)))
            why = f"it was not renewed for {self.terms.deadline_s:g} s"
            left = self._renewed_at + self.terms.deadline_s - self._clock()
            if left <= 0:
                return why
            try:
                async with asyncio.timeout(left):
                    holder = await self._attempt()
            except OSError as error:  # of which TimeoutError is one
                _log.warning("Lease: %s", error or why)
                continue
            if holder != self.identity:
                return f"{holder or 'nobody'} holds it"

    async def release(self) -> None:
        """Gives the Lease back, so that another need not wait; what fails is told."""
        try:
            body = await self._api.read()
            if body is not None and body["spec"].get("holderIdentity") == self.identity:
                body["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
                await self._api.replace(body)
        except OSError as error:
            _log.warning("Lease: %s", error)

    async def _attempt(self) -> str:
        """Takes or renews the Lease if that is allowed; who holds it now."""
        began = self._clock()
        body = await self._api.read()
        if body is None:
            made = await self._api.create(self._spec(None))
            return self._held(began) if made else "another"
        spec = body["spec"]
        holder = str(spec.get("holderIdentity") or "")
        seen = (body["metadata"]["uid"], body["metadata"]["resourceVersion"], holder)
        if seen != self._seen:
            self._seen, self._seen_at = seen, self._clock()
        expires = self._seen_at + float(spec.get("leaseDurationSeconds") or 0)
        if holder not in ("", self.identity) and self._clock() < expires:
            return holder
        written = await self._api.replace({**body, "spec": self._spec(spec)})
        return self._held(began) if written else "another"

    def _held(self, began: float) -> str:
        self._renewed_at = began
        return self.identity

    def _spec(self, before: Body | None) -> Body:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        spec: Body = {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": self.terms.duration_s,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": 0,
        }
        if before is not None:
            mine = before.get("holderIdentity") == self.identity
            transitions = int(before.get("leaseTransitions") or 0)
            spec["leaseTransitions"] = transitions if mine else transitions + 1
            spec["acquireTime"] = before.get("acquireTime") if mine else now
        return spec
