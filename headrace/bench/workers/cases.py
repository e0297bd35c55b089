# SPDX-License-Identifier: Apache-2.0
"""The cases: by what ports packets go, and what the streams share in the switch.

Port numbers: stream n's source is 1 + 10 n, its sink 2 + 10 n, its vhost-user port 3 + 10 n and the
virtio-user end of that 4 + 10 n.
"""

from collections.abc import Callable
from dataclasses import dataclass

STEP = 10
METER = 1


def source(stream: int) -> int:
    """The OpenFlow port that stream's packets come by."""
    return 1 + STEP * stream


def sink(stream: int) -> int:
    """The port that they leave by."""
    return 2 + STEP * stream


def vhost(stream: int) -> int:
    """The vhost-user port in between."""
    return 3 + STEP * stream


def virtio(stream: int) -> int:
    """The other end of that: a virtio-user port of the same switch."""
    return 4 + STEP * stream


@dataclass(frozen=True)
class Case:
    """One way of packets through the switch.

    `shares` says what structure several workers use at once, beside those of every case; `goal` is
    what two workers of Headrace are to bring, in rates of one.
    """

    name: str
    shares: str
    rules: Callable[[int], list[str]]
    by_vhost: bool = False
    one_sink: bool = False
    metered: bool = False
    goal: float | None = None


def _own(streams: int) -> list[str]:
    return [f"in_port={source(n)},actions=output:{sink(n)}" for n in range(streams)]


def _one_sink(streams: int) -> list[str]:
    return [f"in_port={source(n)},actions=output:{sink(0)}" for n in range(streams)]


def _one_rule(streams: int) -> list[str]:
    del streams
    return [f"ip,actions=output:{sink(0)}"]


def _noted_rule(streams: int) -> list[str]:
    del streams
    return [f"idle_timeout=3600,ip,actions=output:{sink(0)}"]


def _noted_rules(streams: int) -> list[str]:
    return [f"idle_timeout=3600,{rule}" for rule in _own(streams)]


def _one_meter(streams: int) -> list[str]:
    return [f"in_port={source(n)},actions=meter:{METER},output:{sink(n)}" for n in range(streams)]


def _by_vhost(streams: int) -> list[str]:
    there = [f"in_port={source(n)},actions=output:{vhost(n)}" for n in range(streams)]
    back = [f"in_port={virtio(n)},actions=output:{sink(n)}" for n in range(streams)]
    return there + back


CASES = (
    Case("in-process", "the buffer pool, the program", _own, goal=1.85),
    Case("one-sink", "a port", _one_sink, one_sink=True),
    Case("one-rule", "a rule and its counters, a port", _one_rule, one_sink=True),
    Case("one-rule-noted", "a rule's last use, a port", _noted_rule, one_sink=True),
    Case("rules-noted", "a cache line of two rules' last uses", _noted_rules),
    Case("one-meter", "a meter's word", _one_meter, metered=True),
    Case("vhost-user", "the buffer pool, the program", _by_vhost, by_vhost=True),
)
