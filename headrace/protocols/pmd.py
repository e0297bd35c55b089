# SPDX-License-Identifier: Apache-2.0
"""The counters of Open vSwitch's PMD threads, from the text of two unixctl commands.

`dpif-netdev/pmd-stats-show` has packets and cycles, `dpif-netdev/pmd-perf-show` iterations and
transmitted batches. All grow from the daemon's start (or the last `pmd-stats-clear`), so two
readings are subtracted. Receive batches are not counted without `pmd-perf-metrics`; of a thread
that polls one busy queue, each busy iteration is one.
"""

import re
from dataclasses import dataclass

STATS, PERF = "dpif-netdev/pmd-stats-show", "dpif-netdev/pmd-perf-show"


@dataclass(frozen=True)
class PmdCounters:
    """One PMD thread. Cycles are TSC cycles; `sleep_iterations` are part of the idle ones.

    What only pmd-perf-show tells is None without its text.
    """

    core: int
    packets: int
    busy_cycles: int
    idle_cycles: int
    iterations: int | None = None
    busy_iterations: int | None = None
    tx_packets: int | None = None
    tx_batches: int | None = None


def _sections(text: str, head: str) -> dict[int, str]:
    """The text of each PMD thread, by core."""
    found = {}
    for section in re.split(r"^(?=\S)", text, flags=re.MULTILINE):
        match = re.match(head, section)
        if match is not None:
            found[int(match[1])] = section
    return found


def _perf_sections(text: str) -> dict[int, str]:
    """As _sections; pmd-perf-show begins each thread with its time on a line of its own."""
    heads = list(re.finditer(r"^pmd thread numa_id \d+ core_id (\d+):", text, re.MULTILINE))
    ends = [*(head.start() for head in heads[1:]), len(text)][: len(heads)]
    return {int(head[1]): text[head.start() : end] for head, end in zip(heads, ends, strict=True)}


def _number(section: str, label: str) -> int | None:
    found = re.search(rf"^\s*(?:- )?{label}:\s*(\d+)", section, re.MULTILINE)
    return int(found[1]) if found else None


def parse_pmd(stats: str, perf: str = "") -> tuple[PmdCounters, ...]:
    """The PMD threads in the output of both commands, without the main thread."""
    more = _perf_sections(perf)
    counters = []
    for core, section in _sections(stats, r"pmd thread numa_id \d+ core_id (\d+):").items():
        detail = more.get(core, "")
        counters.append(
            PmdCounters(
                core=core,
                packets=_number(section, "packets received") or 0,
                busy_cycles=_number(section, "processing cycles") or 0,
                idle_cycles=_number(section, "idle cycles") or 0,
                iterations=_number(detail, "Iterations"),
                busy_iterations=_number(detail, "busy iterations"),
                tx_packets=_number(detail, "Tx packets"),
                tx_batches=_number(detail, "Tx batches"),
            )
        )
    return tuple(counters)
