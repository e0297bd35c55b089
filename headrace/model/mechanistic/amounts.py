# SPDX-License-Identifier: Apache-2.0
"""The amounts of a role's terms for one packet when all bursts are full, as at saturation."""

from headrace.model.mechanistic.windows import FEW_FLOWS, doublings, singles, switch_queues

BURST = 32
ROUND_PACKETS = {"headrace": 4 * BURST}
"""Packets that a round takes from one queue at most, by switch; a burst for others."""
QUEUE = 1024.0
"""Packets that a VNF's queue holds."""
CACHED = float(1 << 18)
"""Bytes of a full queue's frames that the switch's core has in its own cache beside all else.

Chosen by the held-out error of the saturation on a machine with 2 MiB of L2, of 2^17 to 2^20.
"""


def round_packets_of(subject: str) -> float:
    """Packets that a round of the subject's switch takes at most."""
    return float(ROUND_PACKETS.get(subject.partition("/")[0], BURST))


def uncached(size: float) -> float:
    """Share of a full queue's bytes that are not in the cache of the core, for frames of a size."""
    return max(0.0, 1 - CACHED / (QUEUE * size))


def full_switch(
    vnfs: int,
    crossed: int,
    size: float,
    round_packets: float,
    flows: float = FEW_FLOWS,
    queues: float | None = None,
) -> dict[str, float]:
    """Amounts of the switch's terms for a packet.

    Args:
        vnfs: on its path.
        crossed: those that it visits by way of the switch.
        size: frame size in bytes with FCS.
        round_packets: that a round takes from a queue.
        flows: that packets belong to.
        queues: that a round polls; None: those of such a path alone.
    """
    return {
        "packets": 1.0,
        "octets": size,
        "visits": float(crossed),
        "visit_octets": crossed * size,
        "uncached": crossed * size * uncached(size),
        "bursts": (crossed + 1) / BURST,
        "visit_takes": crossed / round_packets,
        "busy_rounds": 1 / round_packets,
        "polls": (switch_queues(vnfs) if queues is None else queues) / round_packets,
        "doublings": doublings(flows),
    }


def full_vnf(size: float) -> dict[str, float]:
    """Amounts of a VNF's terms for a packet that visits it."""
    full = {"bursts": 1 / BURST, "busy_rounds": 1 / BURST, "singles": singles(BURST, 1) / BURST}
    return {"packets": 1.0, "octets": size, **full}
