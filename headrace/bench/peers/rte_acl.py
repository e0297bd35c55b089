# SPDX-License-Identifier: Apache-2.0
"""DPDK's classifier with a firewall's rules: the cost of its look-up alone, for reference.

`dpdk-test-acl` reads ClassBench's format, including ranges. It measures no packets: no source,
parsing, counters or sink; the five-tuples are ready in memory.
"""

import ipaddress
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from headrace.bench.peers.rulesets import Filter, Numbers
from headrace.bench.peers.systems import PeerError, Place, run
from headrace.bench.rows import Row, row, skipped

PROGRAM = "dpdk-test-acl"
MEMORY_MB = 3000  # of ordinary pages, needed to build
ROUNDS = 20  # through all packets, in each sample


def rule_line(one: Filter) -> str:
    """An IPv4 filter in ClassBench's format."""
    addresses = [
        f"{ipaddress.IPv4Address(at)}/{length}" for at, length in (one.source, one.destination)
    ]
    ports = [f"{low} : {high}" for low, high in (one.source_ports, one.destination_ports)]
    protocol = "0x00/0x00" if one.protocol is None else f"{one.protocol:#04x}/0xFF"
    return "@" + "\t".join([*addresses, *ports, protocol, "0x0000/0x0000"])


def packet_line(words: list[int]) -> str:
    """A packet of a rule set's traffic, in the same format."""
    source, destination, last = words
    return f"{source}\t{destination}\t{last >> 16 & 0xFFFF}\t{last & 0xFFFF}\t{last >> 32}"


def rows(
    name: str, filters: list[Filter], packets: Numbers, place: Place, repeats: int
) -> Iterator[Row]:
    """TSC cycles for each look-up, in bursts of 32, on the worker's core."""
    name = f"{name} rte_acl look-up"
    if shutil.which(PROGRAM) is None:
        yield skipped(name, "cycles", f"{PROGRAM} is not installed (Debian package dpdk-dev)")
        return
    rules, trace = place.rundir / "acl.rules", place.rundir / "acl.trace"
    _write(rules, (rule_line(one) for one in filters))
    _write(trace, (packet_line(words) for words in packets.tolist()))
    samples = [_cycles(rules, trace, place, len(filters), len(packets)) for _ in range(repeats)]
    note = "the look-up alone, of five-tuples that lie ready; no packets"
    yield row(name, samples, "cycles", note=note)


def _write(path: Path, lines: Iterator[str]) -> None:
    path.write_text("\n".join(lines) + "\n")


def _cycles(rules: Path, trace: Path, place: Place, filters: int, packets: int) -> float:
    told = run(
        *(PROGRAM, "--no-pci", "--no-huge", "-m", str(MEMORY_MB), "-l", str(place.worker_core)),
        # With the file prefix of a stopped switch it would wait for that switch's telemetry.
        *("--file-prefix", f"peers-acl-{os.getpid()}", "--no-telemetry"),
        *("--", f"--rulesf={rules}", f"--tracef={trace}", f"--rulenum={filters + 1}"),
        *(f"--tracenum={packets}", "--bldcat=1", f"--iter={ROUNDS}", "--tracestep=32"),
        "--verbose=0",
    )
    found = re.search(r"([\d.]+) cycles/pkt", told)
    if found is None:
        raise PeerError(f"{PROGRAM} printed no cycles: {told[-300:]}")
    return float(found[1])
