# SPDX-License-Identifier: Apache-2.0
"""The accounts of a soak, and a short one as a whole."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter

import pytest

from headrace.bench.peers.bed import place, switch_program
from headrace.bench.peers.switches import Headrace
from headrace.bench.soak import suite
from headrace.bench.soak.bed import GUESTS, Bed
from headrace.bench.soak.changes import Changes, Log


def test_accounts_add_up_and_show_what_is_missing() -> None:
    log = Log()
    assert log.add("guests", 100, 90, Counter({"tx-queue-full": 10}), 0) == 0
    assert log.add("guests", 50, 40, Counter({"tx-queue-full": 7}), 2) == 3
    account = log.accounts["guests"]
    assert (account.sent, account.received, account.wrong) == (150, 130, 2)
    assert account.dropped == {"tx-queue-full": 17}
    assert account.unaccounted == 3


def test_more_counted_than_sent_is_a_fault_as_well() -> None:
    log = Log()
    log.add("steady stream", 10, 11, Counter(), 0)
    rows = {row.name: row for row in suite.rows_of(log, [1024, 2048], suite.Stalls(0.5, 3.0))}
    missing = rows["steady stream: unaccounted"]
    assert (missing.value, missing.met) == (1, False)
    assert rows["steady stream: wrong"].met
    assert rows["resident memory at the end"].value == 2
    assert (rows["longest ovs-vsctl"].value, rows["longest wait for workers"].value) == (0.5, 3.0)


@pytest.mark.root
@pytest.mark.dpdk
async def test_a_short_soak_accounts_for_every_packet() -> None:
    rows, manifest = await suite.run(suite.Plan(seconds=6, period_s=3, pps=20_000), lambda _: None)
    by_name = {row.name: row for row in rows}
    assert by_name["steady stream: sent"].value
    assert by_name["steady stream: unaccounted"].value == 0, by_name
    assert by_name["bundles"].value
    assert manifest["plan"]["seed"] == 1


@pytest.mark.root
@pytest.mark.dpdk
async def test_packets_that_wait_for_a_worker_are_not_taken_for_lost() -> None:
    """The switch stands still over the end of a guest's traffic, as on a core that others take."""
    log = Log()
    with place() as where:
        bed = Bed(Headrace(where, switch_program()))
        try:
            await bed.start()
            guest = asyncio.create_task(Changes(bed, log, seed=1).guest(killed=False))
            async with asyncio.timeout(30):
                while (await bed.port_counts(GUESTS))[0] == 0:  # noqa: ASYNC110 - no event tells
                    await asyncio.sleep(0.01)
            pid = bed.system.polling().pid
            os.kill(pid, signal.SIGSTOP)
            await asyncio.sleep(2.5)
            os.kill(pid, signal.SIGCONT)
            await guest
        finally:
            bed.system.stop()
    account = log.accounts["guests"]
    assert account.sent > 0
    assert account.unaccounted == 0, account
