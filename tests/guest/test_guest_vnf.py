# SPDX-License-Identifier: Apache-2.0
"""headrace-vnf inside a virtual machine, on virtio NICs that it drives itself (DPDK, no kernel)."""

from __future__ import annotations

import asyncio
import json

import pytest

from headrace.engines.qemu import VhostUser
from tests.guest.bed import PER_DIRECTION, eventually, running_bed
from tests.guest.guest import Guest, add_vnf, base_image, require_guest

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

PORTS = ("v0", "v1")
NICS = ("0000:00:04.0", "0000:00:05.0")


def bind_to_uio(guest: Guest, nic: str) -> None:
    """Takes a NIC from the guest's kernel; without an IOMMU that is not vfio's."""
    device = f"/sys/bus/pci/devices/{nic}"
    guest.run(f"echo uio_pci_generic >{device}/driver_override")
    guest.run(f"echo {nic} >{device}/driver/unbind")
    guest.run(f"echo {nic} >/sys/bus/pci/drivers_probe")


async def test_a_vnf_in_a_guest_forwards_every_packet() -> None:
    kernel = require_guest()
    image = base_image(kernel)
    add_vnf(image)
    async with running_bed() as bed:
        devices = []
        for number, name in enumerate(PORTS):
            path = bed.switch.rundir / f"{name}.sock"
            await bed.add(name, "dpdkvhostuserclient", f"options:vhost-server-path={path}")
            devices.append(VhostUser(path, f"02:00:00:00:01:{number:02x}"))
        guest = Guest(
            bed.switch.rundir,
            kernel,
            image,
            devices,
            memory_mb=384,
            command_line="hugepages=64",
        )
        try:
            await asyncio.to_thread(guest.boot)
            for nic in NICS:
                bind_to_uio(guest, nic)
            config = {
                "eal": {"memory_mb": 64},
                "idle": "sleep",
                "ports": [{"name": str(number), "devargs": nic} for number, nic in enumerate(NICS)],
                "function": {"mac": "swap"},
            }
            guest.write("/tmp/vnf.json", json.dumps(config))
            guest.run("headrace-vnf pass --config /tmp/vnf.json --ctl /run/ctl >/tmp/log 2>&1 &")
            try:
                await bed.join(*PORTS)
            except AssertionError as error:
                raise AssertionError(guest.run("cat /tmp/log")) from error
            result = await bed.trial()
            assert result.sent == result.received == 2 * PER_DIRECTION, await bed.everything()
            assert result.duplicated == result.reordered == result.misdelivered == 0
            await bed.restart_switch()
            result = await bed.trial()
            assert result.received == 2 * PER_DIRECTION, await bed.everything()
            guest.run("killall headrace-vnf")
            await eventually(lambda: guest.run("pidof headrace-vnf || echo gone") == "gone")
        finally:
            guest.stop()
