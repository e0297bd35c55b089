# SPDX-License-Identifier: Apache-2.0
"""Of several controllers one is active: the Lease, with a clock of the test's own."""

import asyncio
import copy
import random
from typing import Any

import pytest

from headrace.cluster.controller.lease import Election, Terms

TERMS = Terms(duration_s=15, deadline_s=10.0, retry_s=2.0)


class _Lease:
    """A Lease at an API server that refuses to write what has changed since it was read."""

    def __init__(self) -> None:
        self.body: dict[str, Any] | None = None
        self.reachable = True
        self.version = 0

    def _asked(self) -> None:
        if not self.reachable:
            raise OSError("no answer")

    async def read(self) -> dict[str, Any] | None:
        self._asked()
        return copy.deepcopy(self.body)

    async def create(self, spec: dict[str, Any]) -> bool:
        self._asked()
        if self.body is not None:
            return False
        self.body = {"metadata": {"uid": "u", "resourceVersion": "0"}, "spec": spec}
        return True

    async def replace(self, body: dict[str, Any]) -> bool:
        self._asked()
        assert self.body is not None
        if body["metadata"]["resourceVersion"] != self.body["metadata"]["resourceVersion"]:
            return False
        self.version += 1
        self.body = copy.deepcopy(body)
        self.body["metadata"]["resourceVersion"] = str(self.version)
        return True


class _View:
    """The same Lease, as one of the candidates reaches it."""

    def __init__(self, lease: _Lease) -> None:
        self.lease, self.reachable = lease, True

    def _asked(self) -> _Lease:
        if not self.reachable:
            raise OSError("no answer")
        return self.lease

    async def read(self) -> dict[str, Any] | None:
        return await self._asked().read()

    async def create(self, spec: dict[str, Any]) -> bool:
        return await self._asked().create(spec)

    async def replace(self, body: dict[str, Any]) -> bool:
        return await self._asked().replace(body)


class _Time:
    """A clock that is put forward; `asyncio.sleep` waits by it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        self._real = asyncio.sleep
        self._sleepers: list[tuple[float, asyncio.Event]] = []
        monkeypatch.setattr("headrace.cluster.controller.lease.asyncio.sleep", self._sleep)

    def clock(self) -> float:
        return self.now

    async def _sleep(self, seconds: float) -> None:
        event = asyncio.Event()
        self._sleepers.append((self.now + seconds, event))
        await event.wait()

    async def forward(self, seconds: float) -> None:
        end = self.now + seconds
        while True:
            await self.settle()
            due = [one for one in self._sleepers if one[0] <= end]
            if not due:
                break
            first = min(due, key=lambda one: one[0])
            self._sleepers.remove(first)
            self.now = max(self.now, first[0])
            first[1].set()
        self.now = end

    async def settle(self) -> None:
        for _ in range(20):
            await self._real(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> _Time:
    return _Time(monkeypatch)


def _candidate(lease: _Lease, name: str, clock: _Time) -> tuple[Election, _View]:
    view = _View(lease)
    return Election(view, name, TERMS, clock.clock), view


async def test_one_of_two_is_active_and_the_other_follows(clock: _Time) -> None:
    lease = _Lease()
    first, view = _candidate(lease, "first", clock)
    second, _ = _candidate(lease, "second", clock)
    await first.acquire()
    keeping = asyncio.create_task(first.keep())
    waiting = asyncio.create_task(second.acquire())
    await clock.forward(120.0)
    assert not waiting.done() and not keeping.done()
    view.reachable = False  # the first is cut off
    cut = clock.now
    while not keeping.done():
        await clock.forward(0.5)
    ended = clock.now
    assert not waiting.done(), "two are active at once"
    assert ended - cut <= TERMS.deadline_s and "not renewed" in keeping.result()
    while not waiting.done():
        await clock.forward(0.5)
    assert clock.now - cut <= TERMS.duration_s + 2 * TERMS.retry_s
    assert lease.body is not None and lease.body["spec"]["leaseTransitions"] == 1
    view.reachable = True
    await first.release()  # of what another holds nothing is given back
    assert lease.body["spec"]["holderIdentity"] == "second"


async def test_who_ends_gives_it_back(clock: _Time) -> None:
    lease = _Lease()
    first, _ = _candidate(lease, "first", clock)
    second, _ = _candidate(lease, "second", clock)
    await first.acquire()
    waiting = asyncio.create_task(second.acquire())
    await clock.forward(1.0)
    await first.release()
    await clock.forward(TERMS.retry_s)
    assert waiting.done()
    keeping = asyncio.create_task(first.keep())
    await clock.forward(TERMS.retry_s)
    assert keeping.result() == "second holds it"


async def test_a_lease_that_was_taken_by_force_ends_its_holder(clock: _Time) -> None:
    lease = _Lease()
    first, _ = _candidate(lease, "first", clock)
    await first.acquire()
    assert lease.body is not None
    lease.body["spec"]["holderIdentity"] = "kubectl"
    lease.body["metadata"]["resourceVersion"] = "edited"
    keeping = asyncio.create_task(first.keep())
    await clock.forward(TERMS.retry_s)
    assert keeping.result() == "kubectl holds it"


@pytest.mark.parametrize("seed", range(10))
async def test_never_two_at_once(clock: _Time, seed: int) -> None:
    """Candidates come, are cut off and go at random; active ones are counted all the time."""
    chance = random.Random(seed)
    lease = _Lease()
    active: set[str] = set()
    terms_served: list[str] = []
    views: list[_View] = []

    async def controller(name: str) -> None:
        election, view = _candidate(lease, name, clock)
        views.append(view)
        while True:
            await election.acquire()
            active.add(name)
            terms_served.append(name)
            try:
                await election.keep()
            finally:
                active.discard(name)

    tasks = [asyncio.create_task(controller(f"c{n}")) for n in range(3)]
    try:
        for _ in range(600):
            await clock.forward(chance.choice([0.3, 1.0, 2.5]))
            assert len(active) <= 1
            if chance.random() < 0.05:
                chance.choice(views).reachable ^= True
        for view in views:
            view.reachable = True
        await clock.forward(60.0)
        assert len(active) == 1
        assert len(terms_served) > 1
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_terms_that_let_two_be_active_are_refused() -> None:
    with pytest.raises(ValueError, match="deadline_s"):
        Terms(duration_s=10, deadline_s=10.0)
