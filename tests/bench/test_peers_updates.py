# SPDX-License-Identifier: Apache-2.0
"""`headrace bench updates`: how a window's packets are accounted for."""

from headrace.bench.peers import openflow, updates
from headrace.bench.peers.account import Account, Counters
from headrace.bench.peers.rulesets import ruleset


def test_every_packet_at_the_sink_is_no_loss() -> None:
    """Counters only grow; what they were before the window is not its concern."""
    account = Account(Counters(100, 100, (90,)), Counters(1100, 1100, (1090,)), 2.0)
    assert account.lost == 0
    assert account.pps == 500


def test_a_loss_is_told_by_the_counters_around_it() -> None:
    """So a source that is starved and a switch that drops are not taken for one another."""
    account = Account(Counters(0, 0, (0,)), Counters(1000, 990, (987,)), 1.0)
    assert account.lost == 13
    assert account.told() == "10 between source and port, 3 between port and sink"


def test_an_entry_is_matched_by_oxm_fields_with_masks() -> None:
    """As a switch reads them: eth_type, ip_proto, ipv4_dst/24, tcp_dst=1024/0xfc00."""
    made = openflow.five_tuple_match(
        [0, 0x0A000100, 6 << 32 | 1024], [0, 0xFFFFFF00, 0xFF << 32 | 0xFC00]
    )
    fields = "80000a0208008000140106800019080a000100ffffff0080001d040400fc00"
    assert made == bytes.fromhex("00010023" + fields) + bytes(5)


def test_rules_that_come_and_go_are_not_the_firewalls_own() -> None:
    """Deleting one of its own would open a hole that the switch is not to blame for."""
    flows = updates.firewall_flows()
    assert len(flows) == updates.BATCH
    assert len(set(flows)) == updates.BATCH
    priorities = [priority for priority, _ in flows]
    own = ruleset("acl", updates.FIREWALL_ENTRIES).priorities
    assert (max(priorities), min(priorities)) == (own.max(), own.min())
