# SPDX-License-Identifier: Apache-2.0
"""Measures two ways to a kernel interface: `python -m tests.switch.measure_system_ports`.

By turns, on a veth pair: at its near end the switch (worker on CPU 1), at its far end a generator
(CPU 0) by a packet socket. Received: near to a port that drops. Sent: from a port that makes
60-octet packets to near, as many as it takes. Packets per second and the worker's busy cycles per
packet, medians of the rounds. Prints a Markdown table; exits non-zero if a way can't be measured.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from headrace.traffic import StreamSpec, TrafficProcess
from tests.support.switch import Switch, running_switch, unique_bridge
from tests.support.veth import VethPair

ROUNDS = 3
WINDOW_S = 1.0
MODES = ("af_packet", "af_xdp")
LOAD_PPS = 3e6  # more than either takes


def _cycles(switch: Switch) -> tuple[int, int]:
    worker = switch.call("cycles")["workers"][0]
    return worker["busy_cycles"], worker["packets"]


class Measurement:
    """Packets per second and cycles per packet, of one way and direction."""

    def __init__(self) -> None:
        self.pps: list[float] = []
        self.cycles: list[float] = []

    def add(self, packets: int, seconds: float, busy: int) -> None:
        """One window."""
        if packets == 0:
            raise SystemExit("a window without packets")
        self.pps.append(packets / seconds)
        self.cycles.append(busy / packets)

    def row(self) -> str:
        """Two cells of the table."""
        return f"{statistics.median(self.pps) / 1e6:.2f} | {statistics.median(self.cycles):.0f}"


async def _window(switch: Switch, port: str, counter: str, into: Measurement) -> None:
    def state() -> tuple[float, int, int]:
        return (
            time.monotonic(),
            switch.port(port)["counters"][counter],
            _cycles(switch)[0],
        )

    began = await asyncio.to_thread(state)
    await asyncio.sleep(WINDOW_S)
    ended = await asyncio.to_thread(state)
    into.add(ended[1] - began[1], ended[0] - began[0], ended[2] - began[2])


async def _measure(mode: str, received: Measurement, sent: Measurement) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="headrace-measure-") as path,
        VethPair() as pair,
        running_switch(Path(path), extra=("--no-huge",)) as switch,
    ):
        bridge = unique_bridge()
        switch.vsctl(
            *("add-br", bridge, "--", "set", "Bridge", bridge, "fail-mode=secure"),
            *("--", "add-port", bridge, pair.near, "--", "set", "Interface", pair.near),
            *("type=system", f"options:mode={mode}", "ofport_request=1"),
            *("--", "add-port", bridge, "sink", "--", "set", "Interface", "sink"),
            *("type=dpdk", "options:dpdk-devargs=net_null_sink,no-rx=1", "ofport_request=2"),
        )
        error = switch.interface(pair.near, "error")
        if error != ["set", []]:
            raise SystemExit(f"{mode}: {error}")
        switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
        async with TrafficProcess(cpu=0, huge=False, memory_mb=192) as traffic:
            await traffic.add_port("far", f"net_af_packet_far,iface={pair.far},qpairs=1")
            await traffic.configure(
                [StreamSpec(name="s", tx_port="far", rx_port="far", flows=16, size=64)]
            )
            running = asyncio.create_task(
                traffic.trial(WINDOW_S + 1.5, LOAD_PPS, warmup_s=0, drain_s=0, late_bound_us=5e6)
            )
            await asyncio.sleep(0.75)
            await _window(switch, pair.near, "rx_packets", received)
            await running
        switch.vsctl("add-port", bridge, "source", "--", "set", "Interface", "source",
                     "type=dpdk", "options:dpdk-devargs=net_null_source,size=60",
                     "ofport_request=3")  # fmt: skip
        switch.ofctl("add-flow", bridge, "in_port=3,actions=output:1")
        await asyncio.sleep(0.3)
        await _window(switch, pair.near, "tx_packets", sent)
        switch.vsctl("del-br", bridge)


async def _main() -> None:
    received = {mode: Measurement() for mode in MODES}
    sent = {mode: Measurement() for mode in MODES}
    for _ in range(ROUNDS):
        for mode in MODES:
            await _measure(mode, received[mode], sent[mode])
    sys.stdout.write(
        "| mode | received, Mpps | cycles/packet | sent, Mpps | cycles/packet |\n"
        "|---|---|---|---|---|\n"
    )
    for mode in MODES:
        sys.stdout.write(f"| `{mode}` | {received[mode].row()} | {sent[mode].row()} |\n")


if __name__ == "__main__":
    asyncio.run(_main())
