# SPDX-License-Identifier: Apache-2.0
"""Memif ports: peers that are killed under traffic, and several queues between two workers."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from headrace.traffic import TrafficProcess
from tests.support.switch import running_switch
from tests.switch.test_switch_devices import (
    LATE_US,
    PACKETS,
    Bench,
    bench,
    memif_devargs,
)

pytestmark = [pytest.mark.root, pytest.mark.dpdk]


async def _attach(wired: Bench, settings: str = "") -> None:
    for name, number in wired.devices.items():
        devargs = memif_devargs(wired.switch.rundir / "memif.sock", number, "client")
        await wired.traffic.add_port(name, devargs + settings, wait_link_s=10)
    await wired.linked()
    await wired.configure()


async def _links_down(wired: Bench) -> None:
    for _ in range(100):
        ports = [await asyncio.to_thread(wired.switch.port, name) for name in wired.devices]
        if not any(port["link_up"] for port in ports):
            return
        await asyncio.sleep(0.05)
    raise AssertionError("the switch has not noticed that its peer was killed")


async def _buffers_in_use(wired: Bench) -> int:
    return sum(pool["in_use"] for pool in (await wired.call("show"))["buffers"])


async def test_killed_peers_hurt_nobody_and_leak_nothing(rundir: Path) -> None:
    with running_switch(rundir, extra=("--no-huge",)) as switch:
        wired: Bench | None = None
        before = 0
        for round_number in range(5):
            async with TrafficProcess(cpu=0, huge=False, memory_mb=192) as traffic:
                if wired is None:
                    wired = Bench(switch, traffic, "memif")
                    await wired.wire()
                    before = await _buffers_in_use(wired)
                else:
                    wired.traffic = traffic
                    await _attach(wired)
                    assert (await wired.trial()).received == PACKETS
                # As fast as it can, and killed in the middle of it.
                flood = asyncio.create_task(
                    traffic.trial(
                        5.0, 5e6, warmup_s=0, drain_s=0, yield_core=True, late_bound_us=LATE_US
                    )
                )
                await asyncio.sleep(0.2 + 0.03 * round_number)
                assert traffic.pid is not None
                os.kill(traffic.pid, signal.SIGKILL)
                await asyncio.gather(flood, return_exceptions=True)
            await _links_down(wired)
        assert switch.process is not None
        assert wired is not None
        assert await _buffers_in_use(wired) == before


@pytest.mark.parametrize("kind", ["memif", "memif-client"])
async def test_a_secret_lets_in_who_knows_it(rundir: Path, kind: str) -> None:
    async with bench(
        rundir, kind, settings=("options:secret=sesame",), peer_settings=",secret=sesame"
    ) as wired:
        assert (await wired.trial()).received == PACKETS
        for name in wired.devices:
            await wired.vsctl("set", "Interface", name, "options:secret=other")
        await _links_down(wired)
        for name in wired.devices:
            await wired.vsctl("set", "Interface", name, "options:secret=sesame")
        if kind == "memif":  # DPDK's client connects once more only when its device starts
            for name in wired.devices:
                await wired.traffic.remove_port(name)
            await _attach(wired, ",secret=sesame")
        await wired.linked()
        assert (await wired.trial()).received == PACKETS


async def _workers(wired: Bench) -> dict[int, set[tuple[str, int]]]:
    shown: dict[str, Any] = await wired.call("show")
    return {
        worker["cpu"]: {
            (queue["port"], queue["queue"])
            for queue in worker["queues"]
            if queue["port"] != wired.bridge
        }
        for worker in shown["workers"]
    }


async def test_two_workers_share_ports_of_two_queues(rundir: Path) -> None:
    """a and b, a worker each; between them a memif of two queues, whose ends are crossed.

    What comes by `a` is worker 0's, which sends it on its own queue of the memif; that queue's
    other end is polled by worker 1, which hands it to worker 0, the owner of b's transmit queue,
    or the other way round. So every packet meets both ways to share a port.
    """
    async with bench(rundir, "memif") as wired:
        await wired.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=3")
        socket = wired.switch.rundir / "loop.sock"
        for name, role, number in (("m", "server", 3), ("n", "client", 4)):
            await wired.vsctl(
                "add-port", wired.bridge, name, "--", "set", "Interface", name, "type=memif",
                f"options:socket={socket}", f"options:role={role}", "options:n_rxq=2",
                "options:n_rxq_desc=2048", f"ofport_request={number}",
                "other_config:pmd-rxq-affinity=0:1,1:0",
            )  # fmt: skip
        for name, cpu in (("a", 0), ("b", 1)):
            await wired.vsctl("set", "Interface", name, f"other_config:pmd-rxq-affinity=0:{cpu}")
        for in_port, out_port in ((1, 3), (4, 2), (2, 4), (3, 1)):
            await asyncio.to_thread(
                wired.switch.ofctl, "add-flow", wired.bridge,
                f"in_port={in_port},actions=output:{out_port}",
            )  # fmt: skip
        wired.devices |= {"m": 3, "n": 4}
        await wired.linked()
        polled = await _workers(wired)
        assert polled[0] == {("a", 0), ("m", 1), ("n", 1)}
        assert polled[1] == {("b", 0), ("m", 0), ("n", 0)}
        result = await wired.trial()
        assert result.received == PACKETS, await wired.call("drops")
        assert result.reordered == result.duplicated == result.misdelivered == 0
        both = [
            queue["packets"]
            for worker in (await wired.call("show"))["workers"]
            for queue in worker["queues"]
            if queue["port"] in ("m", "n")
        ]
        assert sorted(both) == [0, 0, PACKETS // 2, PACKETS // 2]
