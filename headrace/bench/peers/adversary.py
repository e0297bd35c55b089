# SPDX-License-Identifier: Apache-2.0
"""Adversarial traffic against caches and tuple spaces: the goodput of the honest flows.

Each attack is a table and two sets of frames for it: only honest ones, and the same with a stated
share of attack frames. The table drops attack frames, so the sink's rate is the honest goodput.

Definition of "kept". The source is unpaced: the worker's capacity is shared by all incoming
packets, so an attack packet takes the place of an honest one whatever it costs. This share is not a
weakness of a switch and is left out: kept = goodput under attack / (goodput before x (1 - share)).
It is 1 if an attack packet costs as much as an honest one; if it costs as much as k honest ones, at
a share s, it is 1 / (1 + s (k - 1)). Both sets have the same number of frames, so that they cost
the source the same (its frames come from memory).

The speed of a shared machine varies by more than a few percent from second to second. So windows
are short and many, the two sets alternate, and the median of the pairs is given with an interval.

Source: Csikor et al., "Tuple Space Explosion", CoNEXT 2019 (CVE-2019-25076).
"""

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from headrace.bench.peers import frames
from headrace.bench.peers.cases.case import ROUTER_MAC, SEED, SENDER_MAC, SINK, SOURCE, Case
from headrace.bench.peers.frames import Bytes

HONEST_FLOWS = 100
FILLING_S = 2.0  # time for an attack to fill caches and tables before the first window
ALLOWED_SOURCE = int(ipaddress.IPv4Address("10.0.0.1"))
ALLOWED_UDP_SRC = 12345
ALLOWED_UDP_DST = 80


@dataclass(frozen=True)
class Attack:
    """One attack: `share` of the packets are the attacker's; `goal` is the goodput to keep."""

    name: str
    rules: Callable[[], list[str]]
    hostile: Callable[[], Bytes]
    share: float
    goal: float = 0.95

    def honest_case(self) -> Case:
        """Honest frames only, as many as there are frames in the attack."""

        def alone() -> Bytes:
            count = round(len(self.hostile()) / self.share)
            return np.resize(_honest(), (count, frames.MINIMUM))

        return Case(self.name, HONEST_FLOWS, self.rules, alone, None)

    def attacked_case(self) -> Case:
        """Honest frames mixed with the attacker's."""

        def mixed() -> Bytes:
            return mix(_honest(), self.hostile(), self.share)

        return Case(self.name, HONEST_FLOWS, self.rules, mixed, None)


def mix(honest: Bytes, hostile: Bytes, share: float) -> Bytes:
    """All hostile frames once, each after enough honest ones to make its share `share`."""
    spacing = round(1 / share) - 1
    fill = np.resize(np.arange(len(honest)), len(hostile) * spacing)
    rows = honest[fill].reshape(len(hostile), spacing, -1)
    whole = np.concatenate([rows, hostile[:, None, :]], axis=1)
    return whole.reshape(-1, honest.shape[1])


def _udp(source: np.ndarray, udp_src: np.ndarray, udp_dst: np.ndarray) -> Bytes:
    made = frames.udp_frames(
        eth_dst=frames.mac(ROUTER_MAC),
        eth_src=frames.mac(SENDER_MAC),
        ipv4_src=source.astype(np.uint32),
        ipv4_dst=np.full(len(source), 0xC0A80001, dtype=np.uint32),
    )
    made[:, 34:36] = udp_src.astype(">u2").view(np.uint8).reshape(-1, 2)
    made[:, 36:38] = udp_dst.astype(">u2").view(np.uint8).reshape(-1, 2)
    return made


def _honest() -> Bytes:
    numbers = np.arange(HONEST_FLOWS)
    return _udp(0x0B000000 + numbers, 20000 + numbers, np.full(HONEST_FLOWS, ALLOWED_UDP_DST))


def _explosion_rules() -> list[str]:
    """Three allow rules with falling priority, each on another field; all else is dropped."""
    return [
        f"priority=30,ip,nw_src={ipaddress.IPv4Address(ALLOWED_SOURCE)},actions=output:{SINK}",
        f"priority=20,udp,udp_src={ALLOWED_UDP_SRC},actions=output:{SINK}",
        f"priority=10,udp,udp_dst={ALLOWED_UDP_DST},actions=output:{SINK}",
        "priority=0,actions=drop",
    ]


def _explosion_frames() -> Bytes:
    """32 x 16 x 16 packets, each with its own first differing bit in each of the three fields."""
    bits = np.stack(
        np.meshgrid(np.arange(32), np.arange(16), np.arange(16), indexing="ij"), axis=-1
    ).reshape(-1, 3)
    np.random.default_rng(SEED).shuffle(bits)
    return _udp(
        ALLOWED_SOURCE ^ (1 << bits[:, 0].astype(np.int64)),
        ALLOWED_UDP_SRC ^ (1 << bits[:, 1]),
        ALLOWED_UDP_DST ^ (1 << bits[:, 2]),
    )


def _many_masks_rules() -> list[str]:
    """64 masks: source and destination prefixes in 8 x 8 combinations, below the honest rule."""
    rules = [f"priority=1000,udp,udp_dst={ALLOWED_UDP_DST},actions=output:{SINK}"]
    for i, source in enumerate(range(4, 36, 4)):
        for j, destination in enumerate(range(4, 36, 4)):
            net_a = ipaddress.IPv4Network((0xAC000000 >> (32 - source) << (32 - source), source))
            net_b = ipaddress.IPv4Network(
                (0xAD000000 >> (32 - destination) << (32 - destination), destination)
            )
            rules.append(f"priority={10 + i * 8 + j},ip,nw_src={net_a},nw_dst={net_b},actions=drop")
    return [*rules, "priority=0,actions=drop"]


def _random_frames(count: int) -> Bytes:
    """Every packet is another flow, which no allow rule matches."""
    random = np.random.default_rng(SEED)
    return _udp(
        random.integers(1 << 24, 223 << 24, count),
        random.integers(1024, 65536, count),
        random.integers(1024, 65536, count),
    )


def _all_miss_rules() -> list[str]:
    """The honest flows exactly; no rule for anything else: a miss is a drop."""
    return [
        f"priority=10,in_port={SOURCE},udp,nw_src={ipaddress.IPv4Address(0x0B000000 + i)},"
        f"udp_src={20000 + i},udp_dst={ALLOWED_UDP_DST},actions=output:{SINK}"
        for i in range(HONEST_FLOWS)
    ]


def all_attacks() -> list[Attack]:
    """Every attack, in the order of the report."""
    return [
        Attack("tuple-space-explosion", _explosion_rules, _explosion_frames, 1 / 100),
        Attack("many-masks", _many_masks_rules, lambda: _random_frames(8192), 1 / 100),
        Attack("all-miss", _all_miss_rules, lambda: _random_frames(8192), 1 / 100),
    ]
