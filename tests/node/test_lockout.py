# SPDX-License-Identifier: Apache-2.0
"""Failed logins are counted by name and by address, and cost time."""

import asyncio
from pathlib import Path

from headrace.node.access.lockout import FORGOTTEN_S, FREE, LONGEST_S, Lockout
from headrace.node.access.users import User, hash_of
from tests.node.api import Api, api_of

HERE, THERE = "192.0.2.1", "192.0.2.2"


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_waits_double_up_to_a_minute() -> None:
    clock = Clock()
    lockout = Lockout(clock)
    waits = []
    for _ in range(FREE + 9):
        lockout.failed("ann", HERE)
        waits.append(lockout.wait_s("ann", HERE))
        clock.now += waits[-1]
        assert lockout.wait_s("ann", HERE) == 0
    assert waits == [0, 0, 0, 0, 1, 2, 4, 8, 16, 32, *[int(LONGEST_S)] * 4]
    clock.now += FORGOTTEN_S
    lockout.failed("ann", HERE)
    assert lockout.wait_s("ann", HERE) == 0


def test_by_name_and_by_address() -> None:
    lockout = Lockout(Clock())
    for number in range(FREE):
        lockout.failed("ann", f"192.0.2.{number}")
    assert lockout.wait_s("ann", "198.51.100.1") == 1 and lockout.wait_s("bob", HERE) == 0
    for number in range(FREE):
        lockout.failed(f"user{number}", "2001:db8:1:2::1")
    assert lockout.wait_s("eve", "2001:db8:1:2:ffff::9") == 1
    assert lockout.wait_s("eve", "2001:db8:1:3::1") == 0
    lockout.succeeded("ann")
    assert lockout.wait_s("ann", THERE) == 0
    assert lockout.wait_s("ann", "2001:db8:1:2::7") == 1


def test_its_memory_is_bounded() -> None:
    lockout = Lockout(Clock())
    for number in range(30_000):
        lockout.failed(f"user{number}", HERE)
    assert len(lockout._counts) <= 10_000 and lockout.wait_s("x", HERE) == LONGEST_S


async def log_in(api: Api, password: str) -> int:
    answer = await api("POST", "/login", {"username": "ann", "password": password})
    if answer.status_code == 429:
        assert 1 <= int(answer.headers["retry-after"]) <= LONGEST_S
    return answer.status_code


async def test_guesses_at_once_are_counted_one_by_one(rundir: Path) -> None:
    async for api in api_of(rundir, rest={"login": True}):
        clock = Clock()
        api.node.lockout = Lockout(clock)
        api.node.users.add(User("ann", "admin"), hash_of("the password"))
        codes = await asyncio.gather(*(log_in(api, f"guess {n}") for n in range(12)))
        assert sorted(codes) == [401] * FREE + [429] * 7
        assert await log_in(api, "the password") == 429  # the right one waits, too
        clock.now += 1.0
        assert await log_in(api, "the password") == 200
        # Its name is cleared; the address has still failed, so the next failure costs more.
        assert await log_in(api, "guess") == 401
        assert await log_in(api, "the password") == 429
        clock.now += 2.0
        assert await log_in(api, "the password") == 200
