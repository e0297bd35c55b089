# SPDX-License-Identifier: Apache-2.0
"""PCI functions, SR-IOV and drivers, on a sysfs of the test's own."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest

from headrace.node.pci import binding, functions, virtual
from headrace.node.pci.functions import PciError
from tests.node.fake_sysfs import FakeSysfs

PF = "0000:03:00.0"


@pytest.fixture
def sysfs(tmp_path: Path) -> FakeSysfs:
    """A machine with vfio-pci, a driver i40e and its NIC of two virtual functions, and a disk."""
    made = FakeSysfs(tmp_path / "sys")
    made.add_driver("vfio-pci")
    made.add_driver("i40e", PF)
    made.add_function("0000:00:1f.2", device_class=0x010601)
    made.add_function(PF, driver="i40e", numa_node=1, iommu_group=7, interface="ens1", total_vfs=2)
    return made


def test_discovery_finds_network_functions_only(sysfs: FakeSysfs) -> None:
    [found] = functions.network_functions(sysfs)
    assert found == functions.PciFunction(
        address=PF,
        vendor=0x8086,
        device=0x1572,
        driver="i40e",
        numa_node=1,
        iommu_group=7,
        interfaces=("ens1",),
        mac="3c:fd:fe:00:00:01",
        link_mbps=10000,
        virtual_functions=functions.VirtualFunctions(2, ()),
        physical=None,
        number=None,
    )


def test_discovery_of_a_virtio_nic_and_of_what_the_machine_does_not_say(tmp_path: Path) -> None:
    sysfs = FakeSysfs(tmp_path / "sys")
    sysfs.add_driver("virtio-pci")
    sysfs.add_function(PF, driver="virtio-pci", interface="eth0", below="virtio2")
    (sysfs.devices / PF / "virtio2" / "net" / "eth0" / "speed").write_text("-1\n")
    [found] = functions.network_functions(sysfs)
    assert found.interfaces == ("eth0",)
    assert found.numa_node is found.iommu_group is found.link_mbps is None
    assert found.virtual_functions is None


def test_this_machine_can_be_read() -> None:
    for found in functions.network_functions():
        assert functions.read_function(found.address) == found


def test_a_machine_without_pci_has_none(tmp_path: Path) -> None:
    assert functions.network_functions(functions.Sysfs(tmp_path)) == []


@pytest.mark.parametrize("address", ["03:00.0", "0000:03:00.8", "../../etc", "0000:09:00.0"])
def test_no_such_function(sysfs: FakeSysfs, address: str) -> None:
    with pytest.raises(PciError, match=r"no PCI address|no such PCI function"):
        functions.read_function(address, sysfs)


def test_virtual_functions_are_made_and_kept(sysfs: FakeSysfs) -> None:
    made = virtual.set_count(PF, 2, sysfs=sysfs)
    assert made == ("0000:03:10.0", "0000:03:10.1")
    second = functions.read_function(made[1], sysfs)
    assert (second.physical, second.number, second.virtual_functions) == (PF, 1, None)
    before = list(sysfs.written)
    assert virtual.set_count(PF, 2, in_use=made, sysfs=sysfs) == made
    assert sysfs.written == before, "nothing is touched if there is nothing to do"


def test_another_number_goes_by_zero_unless_one_is_in_use(sysfs: FakeSysfs) -> None:
    made = virtual.set_count(PF, 2, sysfs=sysfs)
    with pytest.raises(PciError, match=r"0000:03:10\.1 would go .* in use"):
        virtual.set_count(PF, 1, in_use=[made[1]], sysfs=sysfs)
    assert virtual.set_count(PF, 1, sysfs=sysfs) == made[:1]
    numbers = [text for path, text in sysfs.written if path.endswith("sriov_numvfs")]
    assert numbers == ["2", "0", "1"]
    assert virtual.set_count(PF, 0, sysfs=sysfs) == ()


def test_what_sr_iov_does_not_have_is_refused(sysfs: FakeSysfs) -> None:
    with pytest.raises(PciError, match="0 to 2"):
        virtual.set_count(PF, 3, sysfs=sysfs)
    with pytest.raises(PciError, match="has no SR-IOV"):
        virtual.set_count("0000:00:1f.2", 1, sysfs=sysfs)


def test_settings_go_to_the_physical_function_one_by_one(sysfs: FakeSysfs) -> None:
    made = virtual.set_count(PF, 2, sysfs=sysfs)
    sent: list[tuple[str, dict[str, Any]]] = []
    settings = virtual.VirtualSettings(
        mac="02:00:00:00:00:07",
        vlan=7,
        vlan_priority=3,
        trust=True,
        spoof_check=False,
        max_rate_mbps=100,
    )
    virtual.configure(made[1], settings, sysfs=sysfs, send=lambda *request: sent.append(request))
    assert sent == [
        ("ens1", {"vf": 1, "mac": "02:00:00:00:00:07"}),
        ("ens1", {"vf": 1, "vlan": {"vlan": 7, "qos": 3}}),
        ("ens1", {"vf": 1, "spoofchk": 0}),
        ("ens1", {"vf": 1, "trust": 1}),
        ("ens1", {"vf": 1, "rate": {"min_tx_rate": 0, "max_tx_rate": 100}}),
    ]


def test_settings_as_netlink_carries_them() -> None:
    """IFLA_VFINFO_LIST of one IFLA_VF_INFO of IFLA_VF_VLAN: {vf, vlan, qos} (linux/if_link.h)."""
    from pyroute2.netlink.rtnl.ifinfmsg import ifinfmsg
    from pyroute2.requests.link import LinkIPRouteFilter

    [request] = virtual.VirtualSettings(vlan=7, vlan_priority=3).attributes(1)
    message = ifinfmsg()
    message["attrs"] = [("IFLA_VFINFO_LIST", LinkIPRouteFilter.get_vf(None, request))]
    message.encode()
    assert bytes(message.data).hex().endswith("180016001400010010000200010000000700000003000000")


def test_a_refused_setting_names_itself(sysfs: FakeSysfs) -> None:
    made = virtual.set_count(PF, 1, sysfs=sysfs)

    def refuse(interface: str, request: dict[str, Any]) -> None:
        if "trust" in request:
            raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    settings = virtual.VirtualSettings(vlan=1, trust=True)
    with pytest.raises(PciError, match=r"i40e refuses trust: .*not supported"):
        virtual.configure(made[0], settings, sysfs=sysfs, send=refuse)
    with pytest.raises(PciError, match="no virtual function"):
        virtual.configure(PF, settings, sysfs=sysfs, send=refuse)


def test_settings_that_cannot_be() -> None:
    with pytest.raises(PciError, match="vlan 4095"):
        virtual.VirtualSettings(vlan=4095)
    with pytest.raises(PciError, match="VLAN priority 8"):
        virtual.VirtualSettings(vlan=1, vlan_priority=8)
    with pytest.raises(PciError, match="rates 9 to 8"):
        virtual.VirtualSettings(min_rate_mbps=9, max_rate_mbps=8)


def test_binding_to_vfio_and_back(sysfs: FakeSysfs) -> None:
    assert binding.bind_to_vfio(PF, sysfs) == "i40e"
    assert functions.read_function(PF, sysfs).driver == "vfio-pci"
    assert binding.bind_to_vfio(PF, sysfs) == "vfio-pci", "as it is already"
    binding.bind_to(PF, None, sysfs)
    assert functions.read_function(PF, sysfs).driver == "i40e"
    assert (sysfs.devices / PF / "driver_override").read_text() == "\n"


def test_what_is_in_use_is_not_taken_away(tmp_path: Path) -> None:
    sysfs = FakeSysfs(tmp_path / "sys")
    sysfs.add_driver("vfio-pci")
    sysfs.add_driver("i40e", PF)
    sysfs.add_function(PF, driver="i40e", iommu_group=1, interface="ens1", up=True)
    with pytest.raises(PciError, match="in use: its interface ens1 is up"):
        binding.bind_to_vfio(PF, sysfs)
    assert functions.read_function(PF, sysfs).driver == "i40e"
    assert sysfs.written == []


def test_what_is_not_isolated_is_refused(sysfs: FakeSysfs) -> None:
    sysfs.add_function("0000:03:00.1", driver="i40e", iommu_group=7)
    with pytest.raises(PciError, match=r"shares IOMMU group 7 with 0000:03:00\.1"):
        binding.bind_to_vfio(PF, sysfs)
    sysfs.add_function("0000:04:00.0", driver="i40e")
    with pytest.raises(PciError, match="in no IOMMU group"):
        binding.bind_to_vfio("0000:04:00.0", sysfs)


def test_a_driver_that_is_not_there_or_does_not_take_it(sysfs: FakeSysfs) -> None:
    with pytest.raises(PciError, match="modprobe uio_pci_generic"):
        binding.bind_to(PF, "uio_pci_generic", sysfs)
    sysfs.add_driver("ixgbe", "0000:05:00.0")
    with pytest.raises(PciError, match="ixgbe did not take it"):
        binding.bind_to(PF, "ixgbe", sysfs)
    assert functions.read_function(PF, sysfs).driver == "i40e", "it was given back"


def test_the_group_of_a_bound_function_must_be_accessible(sysfs: FakeSysfs) -> None:
    with pytest.raises(PciError, match="is with i40e, not with vfio-pci"):
        binding.device_file(PF, sysfs)
    binding.bind_to_vfio(PF, sysfs)
    if not Path("/dev/vfio/7").exists():
        with pytest.raises(PciError, match="/dev/vfio/7 cannot be opened"):
            binding.device_file(PF, sysfs)
