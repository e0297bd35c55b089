# SPDX-License-Identifier: Apache-2.0
"""A virtual machine on Headrace ports: it maps the trust group's region as an ivshmem device.

In the guest runs headrace-port-pass, a VNF in C on libheadrace-port, and then headrace-vnf. All
packets are counted.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest

from headrace.engines.qemu import SharedMemory
from headrace.engines.shared_memory import AttachError, attached
from headrace.machine.programs import find_program
from tests.guest.bed import PER_DIRECTION, Bed, eventually, running_bed
from tests.guest.guest import Guest, add_vnf, base_image, require_guest

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

PACKETS = 2 * PER_DIRECTION
PORTS = ("s0", "s1")
DEVICE = "/sys/bus/pci/devices/0000:00:04.0"
PROGRAM = "headrace-port-pass"


async def add_ports(bed: Bed) -> None:
    for name in PORTS:
        await bed.add(
            name, "shm", "options:group=vm", "options:ivshmem=true", "options:buffers=4096"
        )


@asynccontextmanager
async def guest_on(bed: Bed) -> AsyncIterator[Guest]:
    """A guest with the region of both ports."""
    kernel = require_guest()
    image = base_image(kernel)
    add_vnf(image)
    image.add_program(find_program("headrace-switch").parents[1] / "shm" / PROGRAM)
    with attached(bed.switch.rundir / "vm.shm", *PORTS) as attachment:
        device = SharedMemory(attachment.region, attachment.size)
        guest = Guest(bed.switch.rundir, kernel, image, [device], inherit=attachment.descriptors)
    try:
        await asyncio.to_thread(guest.boot)
        guest.run(f"echo 1 >{DEVICE}/enable")
        yield guest
    finally:
        guest.stop()


def start_vnf(guest: Guest) -> Callable[[], dict[str, list[int]]]:
    """Starts the VNF in the guest; what is returned ends it and reads what it passed on."""
    guest.run(f"{PROGRAM} --memory {DEVICE}/resource2 {' '.join(PORTS)} >/tmp/out 2>/tmp/err &")

    def end() -> dict[str, list[int]]:
        guest.run(f"killall {PROGRAM}; while killall -0 {PROGRAM} 2>/dev/null; do :; done")
        passed: dict[str, list[int]] = json.loads(guest.run("cat /tmp/out"))
        return passed

    return end


def start_headrace_vnf(guest: Guest) -> None:
    """Starts headrace-vnf in the guest on the same ports."""
    config = {
        "eal": {"memory_mb": 64, "hugepages": "off"},
        "idle": "sleep",
        "ports": [
            {"name": name, "shm": {"memory": f"{DEVICE}/resource2", "port": name}} for name in PORTS
        ],
    }
    guest.write("/tmp/vnf.json", json.dumps(config))
    guest.run("headrace-vnf pass --config /tmp/vnf.json >/tmp/log 2>&1 &")
    running = "grep -q 'pass is running' /tmp/log"
    guest.run(f"for i in $(seq 200); do {running} && break; sleep 0.1; done; {running}")


async def test_the_guest_passes_every_packet_and_a_lost_guest_leaks_none() -> None:
    require_guest()
    async with running_bed() as bed:
        await add_ports(bed)
        region = bed.switch.rundir / "vm.shm"
        async with guest_on(bed) as guest:
            end = start_vnf(guest)
            await bed.join(*PORTS)
            with pytest.raises(AttachError, match="busy"), attached(region, PORTS[0]):
                pass
            result = await bed.trial()
            assert result.sent == result.received == PACKETS, await bed.everything()
            assert result.duplicated == result.reordered == result.misdelivered == 0
            for name in PORTS:
                counters = await bed.counters(name)
                assert counters["rx_packets"] == counters["tx_packets"] == PER_DIRECTION
            passed = end()
            assert passed["packets"] == [PER_DIRECTION, PER_DIRECTION]
            octets = [(await bed.counters(name))["tx_bytes"] for name in PORTS]
            assert passed["octets"] == octets
            start_headrace_vnf(guest)
            await bed.join(*PORTS)
            result = await bed.trial()
            assert result.sent == result.received == PACKETS, guest.run("cat /tmp/log")
            assert result.duplicated == result.reordered == result.misdelivered == 0
        # QEMU was killed with the VNF in it: its ports are free again, and so are its buffers.
        await eventually(lambda: not bed.switch.port(PORTS[0])["link_up"])
        async with guest_on(bed) as guest:
            start_vnf(guest)
            await bed.join(*PORTS)
            # More than the region has buffers: the first guest's are among them.
            for _ in range(3):
                result = await bed.trial()
                assert result.sent == result.received == PACKETS, await bed.everything()


async def test_a_region_that_fits_no_bar_is_refused() -> None:
    async with running_bed() as bed:
        await bed.add("s0", "shm", "options:group=vm", "options:buffers=5000")
        with (
            pytest.raises(AttachError, match="ivshmem=true"),
            attached(bed.switch.rundir / "vm.shm", "s0"),
        ):
            pass
        with (
            pytest.raises(AttachError, match=r"port s7 .*No such file"),
            attached(bed.switch.rundir / "vm.shm", "s7"),
        ):
            pass
