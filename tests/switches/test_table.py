# SPDX-License-Identifier: Apache-2.0
from tests.switches.table import switch_of


def test_names_with_hyphens_are_switches() -> None:
    assert switch_of("ovs-dpdk") == switch_of("ovs-dpdk-eth_dst") == "ovs-dpdk"
    assert switch_of("linux-bridge-set_field-eth_dst") == "linux-bridge"
    assert switch_of("ovs:userspace-vlan_vid") == "ovs:userspace"
    assert switch_of("vpp") == "vpp" and switch_of("vpp:fake") == "vpp:fake"
    assert switch_of("unknown-eth_dst") is None
