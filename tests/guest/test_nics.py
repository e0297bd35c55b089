# SPDX-License-Identifier: Apache-2.0
"""NICs under DPDK: a guest with emulated ones of each model, and every frame through each.

The host sends into one tap and counts at the other; between them are two NICs of a model and
headrace-vnf, which has them by their PCI addresses. So a device is probed by address, its link is
waited for, pause frames are switched off where it has them, and frames of all sizes come through.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.engines.qemu import pci_address
from headrace.machine.guests.image import add_vnf, base_image
from tests.guest.guest import Guest, require_guest
from tests.guest.test_guest import tap_interface
from tests.support.frames import udp_frame
from tests.support.veth import RawPort

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.full,
    pytest.mark.timeout(400),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: taps, a guest"),
]

MODELS = ("e1000", "e1000e", "virtio-net-pci", "vmxnet3")
"""QEMU 7.2's; it has no igb."""
PAUSES = ("e1000", "e1000e")
"""Models whose driver knows pause frames: it says that they are off."""
SIZES = (60, 61, 512, 1514)
FRAMES = 40


@dataclass(frozen=True)
class Nic:
    """A NIC of a model on a tap, in the guest's PCI slot of its number."""

    model: str
    tap: str

    def arguments(self, number: int, accelerator: str) -> list[str]:
        """QEMU's words for it."""
        del accelerator
        slot = pci_address(number)[5:10].split(":")[1]
        return [
            *("-netdev", f"tap,id=net{number},ifname={self.tap},script=no,downscript=no"),
            *("-device", f"{self.model},netdev=net{number},mac=02:00:00:00:03:{number:02x},"
                         f"addr=0x{slot}"),
        ]  # fmt: skip


@pytest.fixture(scope="module")
def guest(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Guest, dict[str, list[str]]]]:
    """The guest and the taps of each model."""
    kernel = require_guest()
    image = base_image(kernel)
    add_vnf(image, "net_e1000", "net_vmxnet3")
    with ExitStack() as stack:
        taps = {model: [stack.enter_context(tap_interface()) for _ in "ab"] for model in MODELS}
        devices: Any = [Nic(model, tap) for model in MODELS for tap in taps[model]]
        folder = tmp_path_factory.mktemp("nics")
        made = Guest(folder, kernel, image, devices, memory_mb=768, command_line="hugepages=96")
        try:
            made.boot()
            yield made, taps
        finally:
            made.stop()


def start(guest: Guest, model: str) -> str:
    """Starts headrace-vnf between the two NICs of a model; returns its log."""
    first = 2 * MODELS.index(model)
    nics = [pci_address(first + at) for at in range(2)]
    for nic in nics:
        device = f"/sys/bus/pci/devices/{nic}"
        guest.run(f"echo uio_pci_generic >{device}/driver_override")
        guest.run(f"[ ! -e {device}/driver ] || echo {nic} >{device}/driver/unbind")
        guest.run(f"echo {nic} >/sys/bus/pci/drivers_probe")
    config = {
        "eal": {"memory_mb": 64},
        "idle": "sleep",
        "ports": [{"name": str(number), "devargs": nic} for number, nic in enumerate(nics)],
    }
    guest.write(f"/tmp/{model}.json", json.dumps(config))
    log = f"/tmp/{model}.log"
    guest.run(f"headrace-vnf pass --config /tmp/{model}.json >{log} 2>&1 &")
    running = f"grep -q 'pass is running' {log}"
    guest.run(f"for i in $(seq 300); do {running} && break; sleep 0.1; done; cat {log}; {running}",
              timeout_s=60)  # fmt: skip
    return guest.run(f"cat {log}")


def crosses(sender: RawPort, receiver: RawPort, frames: set[bytes]) -> bool:
    """Whether all frames come through; the first may come before the guest's link is up."""
    for _ in range(10):
        for frame in frames:
            sender.send(frame)
        if frames <= set(receiver.receive(len(frames), 3.0)):
            return True
    return False


@pytest.mark.parametrize("model", MODELS)
def test_every_frame_crosses_two_nics(
    guest: tuple[Guest, dict[str, list[str]]], model: str
) -> None:
    machine, taps = guest
    log = start(machine, model)
    try:
        with ExitStack() as stack:
            a, b = (RawPort(tap) for tap in taps[model])
            stack.callback(a.close)
            stack.callback(b.close)
            for sender, receiver in ((a, b), (b, a)):
                for size in SIZES:
                    frames = {
                        udp_frame(udp_src=1000 + number, size=size) for number in range(FRAMES)
                    }
                    assert crosses(sender, receiver, frames), f"{size} octets"
        if model in PAUSES:
            assert log.count("flow control is off") == 2, log
    finally:
        machine.run("killall headrace-vnf; sleep 1")


def test_an_address_without_a_device_is_named(
    guest: tuple[Guest, dict[str, list[str]]],
) -> None:
    machine, _ = guest
    ports = [{"name": name, "devargs": "0000:00:1e.0"} for name in "01"]
    config = {"eal": {"memory_mb": 64}, "ports": ports}
    machine.write("/tmp/none.json", json.dumps(config))
    told = machine.run("headrace-vnf pass --config /tmp/none.json 2>&1 || true", timeout_s=60)
    assert "0000:00:1e.0" in told


def test_models_are_those_of_the_page() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "papers.md").read_text()
    assert all(model.removesuffix("-pci") in page for model in MODELS)
