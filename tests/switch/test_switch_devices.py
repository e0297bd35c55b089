# SPDX-License-Identifier: Apache-2.0
"""The switch between shared-memory ports: every packet counted on both sides, peers kept."""

from __future__ import annotations

import asyncio
import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.traffic import StreamSpec, TrafficProcess, TrialResult
from tests.support.switch import Switch, running_switch, unique_bridge

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

# The two cores are shared with whatever else runs here: nothing is given up on for being late, and
# each direction of a trial fits a ring (1024), so that a generator that is not run for a while
# loses nothing.
LATE_US = 5e6
LOAD_PPS = 4000
SECONDS = 0.5
PACKETS = int(LOAD_PPS * SECONDS)
LONG_LOAD_PPS = 1500
LONG_PACKETS = 3 * LONG_LOAD_PPS


def _meminfo() -> str:
    return Path("/proc/meminfo").read_text()


def memif_devargs(socket: Path, number: int, role: str) -> str:
    return f"net_memif{number},role={role},id={number},socket={socket},socket-abstract=no"


def vhost_devargs(socket: Path, number: int) -> str:
    return (
        f"net_virtio_user{number},path={socket},server=1,packed_vq=1,in_order=1,mrg_rxbuf=0,"
        "queue_size=1024"
    )


class Bench:
    """A bridge with ports 1 and 2 of one kind, and a generator at their other ends.

    Kinds: `memif` (the switch is the server), `memif-client` (the generator is), `vhost`.
    """

    def __init__(
        self,
        switch: Switch,
        traffic: TrafficProcess,
        kind: str,
        *,
        settings: tuple[str, ...] = (),
        peer_settings: str = "",
        frame_size: int = 64,
    ) -> None:
        self.settings = settings  # of each interface
        self.peer_settings = peer_settings  # of the generator's devices
        self.frame_size = frame_size  # with FCS
        self.max_frame = max(frame_size, 1518)
        self.switch = switch
        self.traffic = traffic
        self.kind = kind
        self.bridge = unique_bridge()
        self.devices = {"a": 1, "b": 2}

    async def wire(self) -> None:
        await self.vsctl(
            "add-br", self.bridge, "--", "set", "Bridge", self.bridge, "fail-mode=secure"
        )
        for name, number in self.devices.items():
            socket = self.switch.rundir / (f"{name}.sock" if self.kind == "vhost" else "memif.sock")
            if self.kind == "vhost":
                words = ["type=dpdkvhostuserclient", f"options:vhost-server-path={socket}"]
                devargs = vhost_devargs(socket, number)
                if self.max_frame > 2000:
                    devargs = devargs.replace("mrg_rxbuf=0", "mrg_rxbuf=1")
            else:
                ours, theirs = (
                    ("server", "client") if self.kind == "memif" else ("client", "server")
                )
                words = [
                    "type=memif",
                    f"options:socket={socket}",
                    f"options:id={number}",
                    f"options:role={ours}",
                ]
                devargs = memif_devargs(socket, number, theirs)
            await self.vsctl(
                "add-port", self.bridge, name, "--", "set", "Interface", name, *words,
                f"ofport_request={number}", *self.settings,
            )  # fmt: skip
            await self.traffic.add_port(
                name, devargs + self.peer_settings, wait_link_s=10, max_frame=self.max_frame
            )
        await self.rules()
        await self.linked()
        await self.configure()

    async def configure(self) -> None:
        await self.traffic.configure(
            [
                StreamSpec(
                    name=f"{tx}{rx}", tx_port=tx, rx_port=rx, flows=100, size=self.frame_size
                )
                for tx, rx in (("a", "b"), ("b", "a"))
            ]
        )

    async def rules(self) -> None:
        for in_port, out_port in ((1, 2), (2, 1)):
            await asyncio.to_thread(
                self.switch.ofctl, "add-flow", self.bridge,
                f"in_port={in_port},actions=output:{out_port}",
            )  # fmt: skip

    async def linked(self) -> None:
        """Waits until both sides of both ports see their link."""
        await self.traffic.wait_links(timeout_s=20)
        for _ in range(200):
            ports = [await asyncio.to_thread(self.switch.port, name) for name in self.devices]
            if all(port["link_up"] for port in ports):
                return
            await asyncio.sleep(0.05)
        raise AssertionError("the switch sees no link")

    async def vsctl(self, *words: str) -> str:
        return await asyncio.to_thread(self.switch.vsctl, *words)

    async def trial(self) -> TrialResult:
        return await self.traffic.trial(
            SECONDS, LOAD_PPS, warmup_s=0, drain_s=1.0, yield_core=True, late_bound_us=LATE_US
        )

    async def call(self, method: str, **params: Any) -> Any:
        return await asyncio.to_thread(self.switch.call, method, **params)

    async def counters(self, name: str) -> dict[str, int]:
        return dict((await asyncio.to_thread(self.switch.port, name))["counters"])


@asynccontextmanager
async def bench(
    rundir: Path, kind: str, *, huge: bool = False, **options: Any
) -> AsyncIterator[Bench]:
    with running_switch(rundir, extra=() if huge else ("--no-huge",)) as switch:
        async with TrafficProcess(cpu=0, huge=huge, memory_mb=192) as traffic:
            made = Bench(switch, traffic, kind, **options)
            await made.wire()
            yield made


@pytest.mark.parametrize("kind", ["memif", "memif-client", "vhost"])
async def test_both_sides_count_the_same(rundir: Path, kind: str) -> None:
    async with bench(rundir, kind) as wired:
        result = await wired.trial()
        assert result.sent == PACKETS
        assert result.received == PACKETS, await wired.call("drops")
        assert result.reordered == result.duplicated == result.misdelivered == 0
        received = [await wired.counters(name) for name in wired.devices]
        assert sum(port["rx_packets"] for port in received) == PACKETS
        assert sum(port["tx_packets"] for port in received) == PACKETS
        assert sum(port["tx_bytes"] for port in received) == PACKETS * 60


@pytest.mark.parametrize("kind", ["memif", "vhost"])
async def test_hugepages_carry_the_same(rundir: Path, kind: str) -> None:
    free = re.search(r"HugePages_Free:\s+(\d+)", await asyncio.to_thread(_meminfo))
    if free is None or int(free[1]) < 200:
        pytest.skip("fewer than 200 free hugepages")
    async with bench(rundir, kind, huge=True) as wired:
        pages = (await wired.call("ping"))["eal"]
        assert pages["pages"] == "huge", pages["reason"]
        assert (await wired.trial()).received == PACKETS


@pytest.mark.parametrize("kind", ["memif", "memif-client", "vhost"])
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
async def test_peers_survive_a_restart_of_the_switch(
    rundir: Path, kind: str, how: signal.Signals
) -> None:
    async with bench(rundir, kind) as wired:
        assert (await wired.trial()).received == PACKETS
        await asyncio.to_thread(wired.switch.stop_switch, how)
        await asyncio.to_thread(wired.switch.start_switch)
        await wired.vsctl("set", "Bridge", wired.bridge, "external_ids:waits=1")
        await wired.rules()
        await wired.linked()
        assert (await wired.trial()).received == PACKETS, "the generator was not touched"


async def test_a_memif_client_comes_back_to_a_restarted_server(rundir: Path) -> None:
    async with bench(rundir, "memif-client") as wired:
        assert (await wired.trial()).received == PACKETS
        for name in wired.devices:
            await wired.traffic.remove_port(name)
        for name, number in wired.devices.items():
            devargs = memif_devargs(wired.switch.rundir / "memif.sock", number, "server")
            await wired.traffic.add_port(name, devargs)
        await wired.linked()
        await wired.configure()
        assert (await wired.trial()).received == PACKETS


async def test_workers_change_under_traffic(rundir: Path) -> None:
    async with bench(rundir, "memif") as wired:
        running = asyncio.create_task(
            wired.traffic.trial(
                3.0, LONG_LOAD_PPS, warmup_s=0, drain_s=1.0, yield_core=True, late_bound_us=LATE_US
            )
        )
        for mask in ("3", "1", "3", "2"):
            await asyncio.sleep(0.4)
            await wired.vsctl("set", "Open_vSwitch", ".", f"other_config:pmd-cpu-mask={mask}")
            cycles = await wired.call("cycles")
            assert [w["cpu"] for w in cycles["workers"]] == [
                cpu for cpu in range(2) if int(mask, 16) >> cpu & 1
            ]
        result = await running
        assert result.received == result.sent == LONG_PACKETS, await wired.call("drops")


def churned_ports(rundir: Path, other: str) -> dict[str, tuple[str, ...]]:
    """Ports of every kind, by name, and their columns."""
    return {
        "null": ("type=dpdk", "options:dpdk-devargs=net_null_churn,no-rx=1"),
        "ring": ("type=dpdk", "options:dpdk-devargs=net_ring_churn"),
        "memif": ("type=memif", f"options:socket={rundir}/churn.sock", "options:role=server"),
        "vhost": ("type=dpdkvhostuser",),
        "vhostc": ("type=dpdkvhostuserclient", f"options:vhost-server-path={rundir}/nobody"),
        f"{other}t": ("type=tap",),
        "p0": ("type=patch", "options:peer=p1"),
        "p1": ("type=patch", "options:peer=p0"),
        "vxlan": ("type=vxlan", "options:remote_ip=192.0.2.1", "options:local_ip=192.0.2.9"),
        "gre": ("type=gre", "options:remote_ip=flow", "options:key=flow"),
        "gtpu": ("type=gtpu", "options:remote_ip=192.0.2.2", "options:key=7"),
        "whole": ("type=defrag",),
    }


async def test_ports_and_bridges_come_and_go_under_traffic(rundir: Path) -> None:
    async with bench(rundir, "memif") as wired:
        other = unique_bridge()
        ports = churned_ports(rundir, other)
        running = asyncio.create_task(
            wired.traffic.trial(
                6.0, LONG_LOAD_PPS, warmup_s=0, drain_s=1.0, yield_core=True, late_bound_us=LATE_US
            )
        )
        rounds = 0
        while not running.done() or rounds == 0:
            words = ["add-br", other]
            for name, columns in ports.items():
                words += ["--", "add-port", other, name, "--", "set", "Interface", name, *columns]
            await wired.vsctl(*words)
            for name in ports:
                assert await asyncio.to_thread(wired.switch.interface, name, "ofport") != -1, name
            await wired.vsctl("del-port", other, "ring", "--", "del-port", other, "p0")
            await wired.vsctl("add-port", wired.bridge, "ring", "--", "set", "Interface", "ring",
                              *ports["ring"])  # fmt: skip
            await wired.vsctl("del-port", wired.bridge, "ring", "--", "del-br", other)
            rounds += 1
        result = await running
        assert result.received == result.sent == 6 * LONG_LOAD_PPS, "others must not disturb"
        assert result.reordered == result.duplicated == result.misdelivered == 0


async def test_a_sleeping_worker_loses_nothing(rundir: Path) -> None:
    async with bench(rundir, "memif") as wired:
        await wired.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-maxsleep=100")
        await asyncio.sleep(0.2)
        before = (await wired.call("cycles"))["workers"][0]
        result = await wired.trial()
        after = (await wired.call("cycles"))["workers"][0]
        assert result.received == PACKETS
        assert after["sleep_cycles"] > before["sleep_cycles"]
