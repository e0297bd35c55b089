# SPDX-License-Identifier: Apache-2.0
"""PCI and SR-IOV functions of this very machine; a skipped test says what the machine lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engines import qemu
from headrace.node.pci import binding, functions, virtual
from headrace.node.pci.functions import PciFunction
from tests.guest.guest import Guest, base_image, require_guest

pytestmark = pytest.mark.root


@pytest.fixture
def physical() -> Iterator[PciFunction]:
    """An idle function with SR-IOV and without virtual functions; it is left as it was."""
    able = [f for f in functions.network_functions() if f.virtual_functions is not None]
    if not able:
        pytest.skip("no network function of this machine has SR-IOV")
    idle = [f for f in able if f.virtual_functions and not f.virtual_functions.addresses]
    idle = [f for f in idle if f.interfaces and f.driver != binding.VFIO]
    if not idle:
        pytest.skip("all functions with SR-IOV have virtual functions, which may be in use")
    yield idle[0]
    virtual.set_count(idle[0].address, 0)


@pytest.fixture
def on_vfio(physical: PciFunction) -> Iterator[PciFunction]:
    """A virtual function that vfio-pci drives."""
    [made] = virtual.set_count(physical.address, 1)
    if functions.read_function(made).iommu_group is None:
        pytest.skip("no IOMMU is switched on here")
    if not (functions.SYSFS.drivers / binding.VFIO).is_dir():
        pytest.skip("this kernel has no vfio-pci, or it is not loaded")
    binding.bind_to_vfio(made)
    yield functions.read_function(made)
    binding.bind_to(made, None)


def test_virtual_functions_come_take_settings_and_go(physical: PciFunction) -> None:
    [made] = virtual.set_count(physical.address, 1)
    function = functions.read_function(made)
    assert (function.physical, function.number) == (physical.address, 0)
    settings = virtual.VirtualSettings(mac="02:00:00:00:00:07", vlan=7)
    virtual.configure(made, settings)
    assert virtual.set_count(physical.address, 0) == ()


def test_a_virtual_function_goes_to_vfio_and_back(on_vfio: PciFunction) -> None:
    assert binding.device_file(on_vfio.address) == f"/dev/vfio/{on_vfio.iommu_group}"
    binding.bind_to(on_vfio.address, None)
    assert functions.read_function(on_vfio.address).driver != binding.VFIO


async def test_a_guest_finds_the_function_that_it_is_given(
    on_vfio: PciFunction, tmp_path: Path
) -> None:
    kernel = require_guest()
    guest = Guest(tmp_path, kernel, base_image(kernel), [qemu.PciFunction(on_vfio.address)])
    try:
        await asyncio.to_thread(guest.boot)
        found = f"/sys/bus/pci/devices/{qemu.pci_address(0)}"
        assert int(guest.run(f"cat {found}/vendor"), 0) == on_vfio.vendor
        assert int(guest.run(f"cat {found}/device"), 0) == on_vfio.device
    finally:
        guest.stop()
