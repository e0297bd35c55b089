# SPDX-License-Identifier: Apache-2.0
"""Which worker polls which queue, by OVSDB's settings, and whose buffers a backlog may take."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.support.frames import udp_frame
from tests.support.headrace_port import VnfPort
from tests.support.switch import Switch, running_switch, unique_bridge
from tests.support.veth import RawPort, VethPair
from tests.switch.test_switch_devices import PACKETS, bench
from tests.switch.test_switch_links import gather

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

QUEUES = 40  # times 1023 packets are more than the switch has buffers
two_cpus = pytest.mark.skipif(
    (os.cpu_count() or 1) < 2, reason="a second worker needs a second CPU"
)

Owners = dict[tuple[str, int], int]  # CPU of the worker, by port and queue


@pytest.fixture
def two_workers(rundir: Path) -> Iterator[tuple[Switch, str]]:
    """A switch with workers on CPUs 0 and 1, and an empty bridge."""
    bridge = unique_bridge()
    with running_switch(rundir, extra=("--no-huge", "--cpu-mask", "3")) as switch:
        switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "fail-mode=secure")
        yield switch, bridge


def add_idle(switch: Switch, bridge: str, name: str, queues: int) -> None:
    """Adds a port that never receives anything."""
    switch.vsctl(
        *("add-port", bridge, name, "--", "set", "Interface", name, "type=dpdk"),
        *(f"options:dpdk-devargs=net_null_{name},no-rx=1", f"options:n_rxq={queues}"),
    )


def owners(switch: Switch) -> Owners:
    """Who polls what."""
    shown = switch.call("show")
    return {
        (queue["port"], queue["queue"]): worker["cpu"]
        for worker in shown["workers"]
        for queue in worker["queues"]
    }


@two_cpus
def test_queues_stay_where_they_are_when_ports_come_and_go(
    two_workers: tuple[Switch, str],
) -> None:
    switch, bridge = two_workers
    add_idle(switch, bridge, "a", 4)
    first = {key: cpu for key, cpu in owners(switch).items() if key[0] == "a"}
    assert sorted(first.values()) == [0, 0, 1, 1]
    for name, queues in (("b", 1), ("0", 3)):  # before and after in every order
        add_idle(switch, bridge, name, queues)
        now = owners(switch)
        assert {key: now[key] for key in first} == first
    switch.vsctl("del-port", bridge, "0")
    now = owners(switch)
    assert {key: now[key] for key in first} == first


@two_cpus
def test_an_affinity_moves_a_queue_and_isolates_its_worker(
    two_workers: tuple[Switch, str],
) -> None:
    switch, bridge = two_workers
    add_idle(switch, bridge, "a", 2)
    add_idle(switch, bridge, "b", 2)
    switch.vsctl("set", "Interface", "a", 'other_config:pmd-rxq-affinity="0:1"')
    now = owners(switch)
    assert {key for key, cpu in now.items() if cpu == 1} == {("a", 0)}
    assert ("b", 0) in now
    switch.vsctl("remove", "Interface", "a", "other_config", "pmd-rxq-affinity")
    assert len(owners(switch)) == len(now), "none is lost"


@two_cpus
def test_the_policy_is_read_and_checked(two_workers: tuple[Switch, str]) -> None:
    switch, bridge = two_workers
    add_idle(switch, bridge, "a", 4)
    assert switch.call("show")["rxq_assign"] == "cycles"
    switch.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-rxq-assign=roundrobin")
    assert switch.call("show")["rxq_assign"] == "roundrobin"
    mine = {key: cpu for key, cpu in owners(switch).items() if key[0] == "a"}
    assert sorted(mine.values()) == [0, 0, 1, 1]
    switch.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-rxq-assign=random")
    told = switch.vsctl("get", "Bridge", bridge, "status:switch_error")
    assert "pmd-rxq-assign 'random'" in told
    switch.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-rxq-assign=group")
    switch.call("rebalance")
    assert len(owners(switch)) == len(mine) + 1, "and the bridge's own port"


@two_cpus
def test_a_worker_that_stays_keeps_its_number(two_workers: tuple[Switch, str]) -> None:
    switch, _ = two_workers
    number = {worker["cpu"]: worker["number"] for worker in switch.call("show")["workers"]}
    switch.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=0x2")
    (left,) = switch.call("show")["workers"]
    assert (left["cpu"], left["number"]) == (1, number[1])
    switch.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=0x3")
    assert {w["cpu"]: w["number"] for w in switch.call("show")["workers"]} == number


@two_cpus
def test_what_another_worker_has_reaches_a_shared_memory_port_in_order(
    two_workers: tuple[Switch, str],
) -> None:
    switch, bridge = two_workers
    with ExitStack() as stack:
        pair = stack.enter_context(VethPair())
        switch.vsctl(
            *("add-port", bridge, pair.near, "--", "set", "Interface", pair.near),
            *("type=system", "ofport_request=1"),
        )
        for number, (port, group) in enumerate((("a", "g"), ("b", "g"), ("c", "h")), start=2):
            switch.vsctl(
                *("add-port", bridge, port, "--", "set", "Interface", port, "type=shm"),
                *(f"options:group={group}", f"ofport_request={number}"),
            )
        dealt = owners(switch)
        assert dealt["a", 0] == dealt["b", 0], "a group has one owner"
        switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
        far = RawPort(pair.far)
        stack.callback(far.close)
        vnf = VnfPort(switch.rundir / "g.shm", "a")
        stack.callback(vnf.close)
        # From a worker that is not the group's owner, which changes then, and back.
        for cpu in (1, 0, 1):
            switch.vsctl(
                *("set", "Interface", pair.near, f'other_config:pmd-rxq-affinity="0:{cpu}"'),
                "--",
                *("set", "Interface", "a", f'other_config:pmd-rxq-affinity="0:{1 - cpu}"'),
            )
            now = owners(switch)
            assert (now[pair.near, 0], now["b", 0]) == (cpu, 1 - cpu)
            frames = [udp_frame(udp_src=n, size=60 + n) for n in range(25)]
            for frame in frames:
                far.send(frame)
            assert gather(vnf, len(frames)) == frames


async def test_a_ports_backlog_leaves_the_others_their_buffers(rundir: Path) -> None:
    async with bench(rundir, "memif") as wired:
        queues = [f"queues:{n}=@q{n}" for n in range(QUEUES)]
        rows = [
            word
            for n in range(QUEUES)
            for word in ("--", f"--id=@q{n}", "create", "Queue", "other-config:max-rate=1000")
        ]
        await wired.vsctl(
            *("add-port", wired.bridge, "slow", "--", "set", "Interface", "slow", "type=dpdk"),
            *("options:dpdk-devargs=net_null_slow,no-rx=1", "ofport_request=100"),
            *("--", "add-port", wired.bridge, "flood", "--", "set", "Interface", "flood"),
            *("type=dpdk", "options:dpdk-devargs=net_null_flood", "ofport_request=101"),
            *("--", "set", "Port", "slow", "qos=@qos", "--", "--id=@qos", "create", "QoS"),
            *("type=linux-htb", *queues, *rows),
        )
        into_all = ",".join(f"set_queue:{n},output:100" for n in range(QUEUES))
        flow = f"priority=99,in_port=101,actions={into_all}"
        await asyncio.to_thread(wired.switch.ofctl, "add-flow", wired.bridge, flow)

        async def lost() -> int:
            return (await wired.counters("slow"))["tx_dropped"]

        for _ in range(200):
            if await lost() > 100_000:
                break
            await asyncio.sleep(0.05)
        assert await lost() > 100_000, "the backlog must be as large as it may be"
        stop = "priority=99,in_port=101,actions=drop"
        await asyncio.to_thread(wired.switch.ofctl, "add-flow", wired.bridge, stop)
        await wired.vsctl(
            "set", "Interface", "flood", "options:dpdk-devargs=net_null_flood,no-rx=1"
        )
        pools = {pool["pool"]: pool for pool in (await wired.call("show"))["buffers"]}
        assert pools["ordinary"]["in_use"] > pools["ordinary"]["size"] // 8, "it still waits"
        assert (await wired.trial()).received == PACKETS
