# SPDX-License-Identifier: Apache-2.0
"""headrace-vnf on memif ports of the switch: whoever is killed comes back and finds the others."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.machine.programs import find_program
from headrace.protocols.control import ControlError, call
from tests.guest.bed import PER_DIRECTION, Bed, eventually, running_bed
from tests.support.daemon import Daemon

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

PACKETS = 2 * PER_DIRECTION
PORTS = ("v0", "v1")


class Vnf:
    """`pass` between memif ports that the switch calls v0 and v1."""

    def __init__(self, bed: Bed, role: str) -> None:
        self._rundir = bed.switch.rundir
        self._ctl = self._rundir / "vnf.ctl"
        config = {
            "eal": {"memory_mb": 64, "hugepages": "off"},
            "ports": [
                {
                    "name": name,
                    "devargs": f"net_memif{number},role={role},id={number},"
                    f"socket={socket_of(bed, name)},socket-abstract=no",
                }
                for number, name in enumerate(PORTS)
            ],
        }
        self._config = self._rundir / "vnf.json"
        self._config.write_text(json.dumps(config))
        self.process = self._started()

    def _started(self) -> Daemon:
        self._ctl.unlink(missing_ok=True)
        words: list[str | Path] = [
            find_program("headrace-vnf"),
            "pass",
            "--config",
            self._config,
            "--ctl",
            self._ctl,
        ]
        process = Daemon(words, self._rundir / "vnf.log")
        process.wait_until(self._ctl.exists)
        return process

    def kill(self) -> None:
        """Ends it without warning."""
        self.process.stop(signal.SIGKILL)

    def restart(self) -> None:
        """Starts it again."""
        self.process = self._started()

    async def ports(self) -> dict[str, Any]:
        """Its counters, by port."""
        return dict((await call(self._ctl, "counters"))["ports"])

    def is_up(self) -> bool:
        """Whether both of its ports have their peer."""
        try:
            ports = asyncio.run(self.ports())
        except ControlError:  # the ports are not open yet
            return False
        return all(port["link"] == "up" for port in ports.values())


def socket_of(bed: Bed, name: str) -> Path:
    return bed.switch.rundir / f"{name}.sock"


@contextmanager
def running_vnf(bed: Bed, role: str) -> Iterator[Vnf]:
    vnf = Vnf(bed, role)
    try:
        yield vnf
    finally:
        vnf.process.stop(signal.SIGKILL)


async def at_rest(vnf: Vnf) -> dict[str, Any]:
    """The VNF's counters by port, once nothing moves them any more."""
    last = await vnf.ports()
    for _ in range(100):
        await asyncio.sleep(0.1)
        now = await vnf.ports()
        if now == last:
            return now
        last = now
    raise AssertionError(f"packets still come: {last}")


async def all_pass(bed: Bed, vnf: Vnf) -> None:
    await eventually(vnf.is_up)
    before = await at_rest(vnf)
    result = await bed.trial()
    assert result.sent == result.received == PACKETS, await bed.everything()
    assert result.duplicated == result.reordered == result.misdelivered == 0
    after = await vnf.ports()
    for name in PORTS:
        for counter in ("rx_packets", "tx_packets"):
            assert after[name][counter] - before[name][counter] == PER_DIRECTION


@pytest.mark.parametrize("role", ["client", "server"])
async def test_the_vnf_and_the_switch_survive_each_other(role: str) -> None:
    async with running_bed() as bed:
        theirs = "server" if role == "client" else "client"
        for number, name in enumerate(PORTS):
            await bed.add(
                name,
                "memif",
                f"options:socket={socket_of(bed, name)}",
                f"options:role={theirs}",
                f"options:id={number}",
            )
        with running_vnf(bed, role) as vnf:
            await bed.join(*PORTS)
            await all_pass(bed, vnf)
            for _ in range(3):
                # Under a flood, so that the VNF is at work when its peer goes.
                flood = asyncio.create_task(bed.traffic.trial(30, 2e6, drain_s=0, yield_core=True))
                await asyncio.sleep(0.3)
                await bed.restart_switch()
                await bed.traffic.stop()
                await flood
                assert vnf.process.exit_code is None, vnf.process.log_tail(20)
                await all_pass(bed, vnf)
            vnf.kill()
            await eventually(lambda: not bed.switch.port(PORTS[0])["link_up"])
            vnf.restart()
            await bed.join(*PORTS)
            await all_pass(bed, vnf)


async def test_wrong_arguments_are_said(tmp_path: Path) -> None:
    config = tmp_path / "vnf.json"
    port = {"name": "a", "devargs": "net_memif0,socket-abstract=no,rsize=20"}
    config.write_text(
        json.dumps(
            {
                "eal": {"hugepages": "off", "memory_mb": 64},
                "cpu": min(os.sched_getaffinity(0)),
                "ports": [port],
            }
        )
    )
    process = await asyncio.create_subprocess_exec(
        find_program("headrace-vnf"), "sink", "--config", config, stderr=asyncio.subprocess.PIPE
    )
    _, said = await asyncio.wait_for(process.communicate(), 20)
    assert process.returncode == 1
    assert b"port a: rsize=20: must be a number from 2 to 14" in said
