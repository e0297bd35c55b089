# SPDX-License-Identifier: Apache-2.0
"""Time in network softirqs, counted by BPF: it grows with the packets, and by a plausible time."""

import socket
from collections.abc import Iterator

import pytest

from headrace.machine.softirq_time import NoSoftirqTime, SoftirqTime

PACKETS = 2000


@pytest.fixture
def counter() -> Iterator[SoftirqTime]:
    try:
        made = SoftirqTime()
    except NoSoftirqTime as error:
        pytest.skip(f"this kernel does not let softirq time be counted: {error}")
    yield made
    made.close()


def test_it_grows_with_the_packets(counter: SoftirqTime) -> None:
    before = counter.nanoseconds()
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver,
    ):
        receiver.bind(("127.0.0.1", 0))
        for _ in range(PACKETS):
            sender.sendto(b"x", receiver.getsockname())
            receiver.recv(1)
    grown = [now - then for now, then in zip(counter.nanoseconds(), before, strict=True)]
    assert min(grown) >= 0
    # 50 ns to 1 ms for each packet: a receive path, not an idle core, not a tick.
    assert 50 <= sum(grown) / PACKETS <= 1e6


def test_two_count_at_once_and_one_that_is_closed_counts_no_more(counter: SoftirqTime) -> None:
    with pytest.raises(OSError):
        other = SoftirqTime()
        other.nanoseconds()
        other.close()
        other.nanoseconds()
    assert counter.nanoseconds()


def test_a_processor_whose_system_calls_are_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "unknown")
    with pytest.raises(NoSoftirqTime, match="unknown"):
        SoftirqTime()
