# SPDX-License-Identifier: Apache-2.0
"""PCI and SR-IOV functions of this very machine; a skipped test says what the machine lacks."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from headrace.node.pci import binding, functions, virtual
from headrace.node.pci.functions import PciFunction

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


def test_virtual_functions_come_take_settings_and_go(physical: PciFunction) -> None:
    [made] = virtual.set_count(physical.address, 1)
    function = functions.read_function(made)
    assert (function.physical, function.number) == (physical.address, 0)
    settings = virtual.VirtualSettings(mac="02:00:00:00:00:07", vlan=7)
    virtual.configure(made, settings)
    assert virtual.set_count(physical.address, 0) == ()


def test_a_virtual_function_goes_to_vfio_and_back(physical: PciFunction) -> None:
    [made] = virtual.set_count(physical.address, 1)
    function = functions.read_function(made)
    if function.iommu_group is None:
        pytest.skip("no IOMMU is switched on here")
    if not (functions.SYSFS.drivers / binding.VFIO).is_dir():
        pytest.skip("this kernel has no vfio-pci, or it is not loaded")
    binding.bind_to_vfio(made)
    assert binding.device_file(made) == f"/dev/vfio/{function.iommu_group}"
    binding.bind_to(made, None)
    assert functions.read_function(made).driver != binding.VFIO
