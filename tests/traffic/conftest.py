# SPDX-License-Identifier: Apache-2.0
"""A generator process for each test, without hugepages, so that any number run at once."""

from collections.abc import AsyncIterator

import pytest_asyncio

from headrace.traffic import TrafficProcess


@pytest_asyncio.fixture
async def traffic() -> AsyncIterator[TrafficProcess]:
    async with TrafficProcess(cpu=0, huge=False, memory_mb=192) as process:
        yield process


@pytest_asyncio.fixture
async def ring(traffic: TrafficProcess) -> TrafficProcess:
    port = await traffic.add_port("r", "net_ring0", max_frame=9018)
    assert port.link
    return traffic
