# SPDX-License-Identifier: Apache-2.0
"""Random documents with a seed: chains as published measurements of traffic describe demands.

* Rates are lognormal, as the traffic between racks and servers of data centers is in Benson et al.,
  "Network Traffic Characteristics of Data Centers in the Wild" (IMC 2010), whose on and off times
  and arrivals are lognormal too: many small demands, few large ones.
* Frames are bimodal around 200 and 1400 bytes, as there; a chain has one mean size, a mixture.
* Functions, their cores and their memory are of the kinds that UNIFY D5.6 measures (Section 3).
* Lengths are uniform between two bounds.
"""

from typing import Any

import numpy as np

SMALL_BYTES, LARGE_BYTES = 200, 1400
MEDIAN_KPPS, SIGMA = 150.0, 1.0

FUNCTIONS: dict[str, dict[str, Any]] = {
    "forwarder": {"cores": 0.1, "cycles": 60, "memory_mb": 128, "latency_us": 4},
    "firewall": {"cores": 0.2, "cycles": 400, "memory_mb": 256, "latency_us": 8},
    "nat": {"cores": 0.2, "cycles": 350, "memory_mb": 512, "latency_us": 8},
    "router": {"cores": 0.3, "cycles": 250, "memory_mb": 512, "latency_us": 6},
    "dpi": {"cores": 0.5, "cycles": 2500, "memory_mb": 2048, "latency_us": 25},
    "ipsec": {"cores": 0.3, "cycles": 3500, "memory_mb": 512, "latency_us": 30},
    "cache": {"cores": 0.5, "cycles": 900, "memory_mb": 8192, "latency_us": 15},
}
CYCLES = {"entry": 120.0, "visit": {"vhost-user": 260.0}, "per_byte": 0.08}
TYPES: dict[str, dict[str, Any]] = {
    "standard": {
        "cores": 28, "switch_cores": 4, "ghz": 2.6, "memory_mb": 131072, "link_gbps": 25,
        "price": 1.0, "hop_us": 6, "cycles": CYCLES,
    },
    "large": {
        "cores": 56, "switch_cores": 8, "ghz": 2.4, "memory_mb": 262144, "link_gbps": 50,
        "price": 1.9, "hop_us": 6, "cycles": CYCLES,
    },
    "edge": {
        "cores": 12, "switch_cores": 2, "ghz": 2.2, "memory_mb": 49152, "link_gbps": 10,
        "price": 0.6, "hop_us": 8, "cycles": CYCLES,
    },
}  # fmt: skip
SHARES = {"standard": 0.5, "large": 0.3, "edge": 0.2}


def chain(random: np.random.Generator, name: str, shortest: int, longest: int) -> dict[str, Any]:
    """One random chain."""
    small = float(random.beta(2, 2))
    names = list(FUNCTIONS)
    weights = np.array([3, 3, 3, 3, 1, 1, 1], dtype=float)
    length = int(random.integers(shortest, longest + 1))
    picked = random.choice(len(names), size=length, p=weights / weights.sum())
    rate = min(2000.0, float(random.lognormal(np.log(MEDIAN_KPPS), SIGMA)))
    return {
        "name": name,
        "vnfs": [names[at] for at in picked],
        "kpps": round(rate, 3),
        "bytes": round(small * SMALL_BYTES + (1 - small) * LARGE_BYTES),
    }


def document(
    seed: int,
    chains: int,
    servers: int,
    *,
    shortest: int = 1,
    longest: int = 10,
    headroom: int = 0,
    constrained: float = 0.0,
    types: tuple[str, ...] = ("standard", "large", "edge"),
) -> dict[str, Any]:
    """A random document, as parsed YAML.

    Args:
        seed: of everything.
        chains: number of chains.
        servers: number of servers, divided over `types` by SHARES.
        shortest: VNFs of a chain at least.
        longest: VNFs of a chain at most.
        headroom: of the document.
        constrained: share of chains with a latency, a placement or VNFs apart.
        types: names of TYPES.
    """
    random = np.random.default_rng(seed)
    made = [chain(random, f"c{number}", shortest, longest) for number in range(chains)]
    for one in made:
        if random.random() >= constrained:
            continue
        length = len(one["vnfs"])
        rule = int(random.integers(3))
        own = sum(FUNCTIONS[name]["latency_us"] for name in one["vnfs"])
        if rule == 0:
            one["latency_us"] = round(own + 8 * (length + 2) + float(random.uniform(0, 120)), 1)
        elif rule == 1:
            one["placement"] = "gather" if length < 8 else "distribute"
        elif length > 1:
            one["apart"] = [sorted(random.choice(length, 2, replace=False).tolist())]
    total = sum(SHARES[name] for name in types)
    counts = [int(servers * SHARES[name] / total) for name in types]
    counts[0] += servers - sum(counts)
    return {
        "types": {name: TYPES[name] for name in types},
        "servers": [
            {"name": name, "type": name, "count": count}
            for name, count in zip(types, counts, strict=True)
            if count
        ],
        "functions": FUNCTIONS,
        "chains": made,
        "headroom": headroom,
        "network_us": 20.0,
    }
