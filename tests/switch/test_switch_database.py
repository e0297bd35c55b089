# SPDX-License-Identifier: Apache-2.0
"""The switch and its database: the lock, a server that goes and comes, and what is written back."""

from __future__ import annotations

import asyncio
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.switch import Switch, unique_bridge
from tests.switch.test_switch_devices import LATE_US, LONG_LOAD_PPS, LONG_PACKETS, PACKETS, bench

pytestmark = [pytest.mark.root, pytest.mark.dpdk]


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = 20) -> None:
    """Fails, naming `what`, unless the condition comes true in time."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


def test_a_second_switch_says_that_it_waits_and_then_takes_over(switch: Switch) -> None:
    bridge = unique_bridge()
    switch.vsctl("add-br", bridge)
    with tempfile.TemporaryDirectory(prefix="headrace-test-") as path:
        second = Switch(Path(path), db=f"unix:{switch.database}", extra=("--no-huge",))
        second.database = switch.database
        second.start_switch()
        assert second.process is not None
        waiting = second.process
        wait_for(lambda: "holds the lock" in waiting.log_tail(), "it does not say that it waits")
        assert second.call("show")["lsis"] == []
        assert switch.call("show")["lsis"] != []
        assert switch.stop_switch() == 0
        wait_for(lambda: bool(second.call("show")["lsis"]), "it does not take over")
        local = f"LOCAL({bridge})"
        wait_for(lambda: local in second.ofctl("show", bridge), "the LSI has no LOCAL port")
        second.vsctl("del-br", bridge)
        assert second.stop_switch() == 0


async def test_nothing_is_lost_while_the_server_is_away(rundir: Path) -> None:
    async with bench(rundir, "memif") as wired:
        flows = await asyncio.to_thread(wired.switch.ofctl, "dump-flows", wired.bridge)
        running = asyncio.create_task(
            wired.traffic.trial(
                3.0, LONG_LOAD_PPS, warmup_s=0, drain_s=1.0, yield_core=True, late_bound_us=LATE_US
            )
        )
        for _ in range(3):
            await asyncio.to_thread(wired.switch.restart_database)
            # Waits for the switch: it is back, and sees what came since.
            await wired.vsctl("set", "Bridge", wired.bridge, "external_ids:seen=1")
            await wired.vsctl("remove", "Bridge", wired.bridge, "external_ids", "seen")
        result = await running
        assert result.received == result.sent == LONG_PACKETS, await wired.call("drops")
        after = await asyncio.to_thread(wired.switch.ofctl, "dump-flows", wired.bridge)
        assert re.findall("actions=.*", after) == re.findall("actions=.*", flows), "rules stay"
        for name in wired.devices:
            assert (await wired.counters(name))["rx_packets"] == LONG_PACKETS // 2, "ports stay"


async def test_columns_tell_what_the_pipeline_counted(rundir: Path) -> None:
    async with bench(rundir, "memif") as wired:
        await wired.trial()
        wanted = {"rx_packets": PACKETS // 2, "tx_packets": PACKETS // 2, "rx_dropped": 0}

        def written() -> bool:
            columns = dict(wired.switch.interface("a", "statistics")[1])
            return wanted.items() <= columns.items()

        # Written every stats-update-interval, whose least is 5 s.
        await asyncio.to_thread(wait_for, written, "the statistics are not written", 30)
        status = dict((await asyncio.to_thread(wired.switch.interface, "a", "status"))[1])
        assert status["role"] == "server"
        for column, value in (("link_state", "up"), ("admin_state", "up"), ("mtu", 1500)):
            assert await asyncio.to_thread(wired.switch.interface, "a", column) == value
        root = await wired.vsctl("get", "Open_vSwitch", ".", "cur_cfg", "next_cfg")
        assert len(set(root.split())) == 1, "all that was asked for is applied"


@contextmanager
def listening() -> Iterator[socket.socket]:
    """A TCP server socket on a port of its own."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20)
        yield server


def test_a_silent_controller_is_probed_and_tried_again(switch: Switch) -> None:
    bridge = unique_bridge()
    with listening() as server:
        port = server.getsockname()[1]
        switch.vsctl("add-br", bridge, "--", "set-controller", bridge, f"tcp:127.0.0.1:{port}",
                     "--", "set", "Controller", bridge, "inactivity_probe=1000",
                     "max_backoff=1000")  # fmt: skip
        for _ in range(3):  # longer and longer, were there no max_backoff
            began = time.monotonic()
            controller, _ = server.accept()
            assert time.monotonic() - began < 15
            controller.settimeout(20)
            controller.sendall(bytes.fromhex("0400000800000001"))  # hello, and then nothing
            heard = b""
            while chunk := controller.recv(4096):
                heard += chunk
            controller.close()
            types = []
            while heard:
                types.append(heard[1])
                heard = heard[int.from_bytes(heard[2:4], "big") :]
            assert types[0] == 0, "hello"
            assert 2 in types, "an echo request before it gave up"
        wait_for(
            lambda: "last_error" in switch.vsctl("get", "Controller", bridge, "status"),
            "the column does not say why",
        )


def test_packet_ins_keep_to_their_rate(switch: Switch) -> None:
    bridge = unique_bridge()
    with listening() as server:
        port = server.getsockname()[1]
        switch.vsctl("add-br", bridge, "--", "set-controller", bridge, f"tcp:127.0.0.1:{port}",
                     "--", "set", "Controller", bridge, "inactivity_probe=0",
                     "controller_rate_limit=100", "controller_burst_limit=25")  # fmt: skip
        controller, _ = server.accept()
        with controller:
            controller.settimeout(1)
            controller.sendall(bytes.fromhex("0400000800000001"))
            wait_for(
                lambda: switch.vsctl("get", "Controller", bridge, "is_connected") == "true",
                "the controller is not taken",
            )
            frame = "ffffffffffff02000000000188cc" + "00" * 46
            actions = ",".join(["controller"] * 200)
            switch.ofctl("packet-out", bridge, f"in_port=local,packet={frame},actions={actions}")
            heard = b""
            end = time.monotonic() + 20
            while time.monotonic() < end:
                try:
                    heard += controller.recv(1 << 16)
                except TimeoutError:
                    break
        count = 0
        while heard:
            count += heard[1] == 10  # OFPT_PACKET_IN
            heard = heard[int.from_bytes(heard[2:4], "big") :]
        limited = switch.vsctl("get", "Controller", bridge, "status:packet_ins_limited")
        assert 25 <= count < 200, "the burst, and one in 10 ms"
        assert count + int(limited.strip('"')) == 200, "all others are counted"


async def test_queues_change_under_traffic(rundir: Path) -> None:
    async with bench(rundir, "memif") as wired:
        number = await asyncio.to_thread(wired.switch.interface, "b", "ofport")
        running = asyncio.create_task(
            wired.traffic.trial(
                3.0, LONG_LOAD_PPS, warmup_s=0, drain_s=1.0, yield_core=True, late_bound_us=LATE_US
            )
        )
        await wired.vsctl(
            *("set", "Port", "b", "qos=@qos", "--", "--id=@qos", "create", "QoS"),
            *("type=linux-htb", "queues:0=@q0", "--", "--id=@q0", "create", "Queue"),
            "other-config:min-rate=1000000",
        )
        qos = await wired.vsctl("get", "Port", "b", "qos")
        for rate in (1_000_000_000, 2_000_000_000, 0):
            await asyncio.sleep(0.3)
            await wired.vsctl("set", "QoS", qos, f"other_config:max-rate={rate}")
        result = await running
        assert result.received == result.sent == LONG_PACKETS, await wired.call("drops")
        assert await asyncio.to_thread(wired.switch.interface, "b", "ofport") == number
        assert (await wired.counters("b"))["tx_packets"] == LONG_PACKETS // 2, "not made anew"
        await wired.vsctl("clear", "Port", "b", "qos")
        assert (await wired.trial()).received == PACKETS
