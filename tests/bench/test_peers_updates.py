# SPDX-License-Identifier: Apache-2.0
"""`headrace bench updates`: how a window's packets are accounted for."""

from headrace.bench.peers.updates import Account, Counters


def test_every_packet_at_the_sink_is_no_loss() -> None:
    """Counters only grow; what they were before the window is not its concern."""
    account = Account(Counters(100, 100, 90), Counters(1100, 1100, 1090), 2.0)
    assert account.lost == 0
    assert account.pps == 500


def test_a_loss_is_told_by_the_counters_around_it() -> None:
    """So a source that is starved and a switch that drops are not taken for one another."""
    account = Account(Counters(0, 0, 0), Counters(1000, 990, 987), 1.0)
    assert account.lost == 13
    assert account.told() == "10 between source and port, 3 between port and sink"
