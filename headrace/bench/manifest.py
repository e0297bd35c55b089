# SPDX-License-Identifier: Apache-2.0
"""What is needed to reproduce a campaign: machine, versions, plan, definitions."""

import json
import os
import platform
import re
import subprocess
import sys
from collections.abc import Sequence
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from headrace.bench.core_plan import CorePlan
from headrace.bench.scenario import Scenario
from headrace.bench.steps import Timing, goals_of
from headrace.results.emulation import EMULATED

PACKAGES = ("headrace", "MLRsearch", "numpy", "scipy", "httpx", "os-ken")
DEBIAN = ("openvswitch-switch-dpdk", "dpdk", "libdpdk-dev", "linux-image-amd64")

DEFINITIONS: dict[str, str] = {
    "frame size": "counts the frame check sequence: 64 is a buffer of 60 bytes",
    "imix-csit": "64, 570 and 1518 bytes in the ratio 28:16:4 (7:4:1), mean 353.8 bytes",
    "rate": "frames per second that came back, in one direction, summed over all streams",
    "loss": "(lost + unsent) / (sent + unsent): packets that could not be sent count as lost",
    "mrr": "rate received while the generator sends as fast as it can (an overload, no search), in "
    "one short trial a round; with `overload: csit` the mean of 10 trials of 1 s",
    "<": "a search ended below the lowest load that it tried: the value is that bound",
    "limiter": "what bounded a rate: generator, switch, a VNF, or unknown; from idle cycles, "
    "full bursts and refused transmissions at each (docs/bench.md)",
    "≥": "the generator limited the rate, or may have, or a search ended at its highest load: "
    "the switch may be faster; of a ratio ≥ and ≤ say which side may be, and a ratio of two such "
    "rates is not determined",
    "latency": "one way, from the moment at which a frame was meant to be sent to its arrival, so "
    "a generator that falls behind does not hide waiting (no coordinated omission)",
    "pdv": "RFC 8219: 99.9th percentile minus minimum of the one-way latency",
    "cpu_percent": "TSC cycles of the rounds in which the switch's worker found packets, of one "
    "core, over the seconds of sending",
    "disturbed": "other programs or the hypervisor took more than 10 % of what the trial measures: "
    "of the busy time for a cost, of the trial for rates and latency; absences partly count as "
    "busy cycles, so costs are too high then",
    "cycles_per_packet": "the same cycles for each frame that came back, whole graph",
    "interval": "95 % of the median, by order statistics, from 6 samples; fewer have a range",
    "ratio": "geometric mean of ratios of samples taken in the same round, one after the other; "
    "95 % by Student's t on logarithms from 3 rounds; ▲ better, ▼ worse, ≈ the whole interval is "
    "within 5 % of 1, else not determined",
}
"""Definitions of the terms in tables; printed in every report."""


def _file(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _field(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1].strip() if found else "unknown"


def _debian_versions() -> dict[str, str]:
    """Versions of the relevant Debian packages that are installed."""
    try:
        listed = subprocess.run(  # noqa: S603
            ["/usr/bin/dpkg-query", "-W", "-f=${Package}=${Version}\n", *DEBIAN],
            check=False,
            capture_output=True,
            text=True,
            timeout=10,
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    rows = (line.split("=", 1) for line in listed.splitlines() if "=" in line)
    return {name: number for name, number in rows if number}


def machine() -> dict[str, Any]:
    """The machine: processor, cores, memory, kernel, settings that affect variance."""
    cpuinfo, meminfo = _file("/proc/cpuinfo"), _file("/proc/meminfo")
    hypervisor = "hypervisor" in cpuinfo
    processor = _field(r"^model name\s*: (.*)$", cpuinfo)
    return {
        "processor": processor,
        EMULATED: "QEMU TCG" in processor,
        "microcode": _field(r"^microcode\s*: (.*)$", cpuinfo),
        "cores": os.cpu_count(),
        "usable_cores": sorted(os.sched_getaffinity(0)),
        "virtual": hypervisor,
        "memory_kb": _field(r"^MemTotal:\s*(\d+)", meminfo),
        "hugepages_total": _field(r"^HugePages_Total:\s*(\d+)", meminfo),
        "hugepage_kb": _field(r"^Hugepagesize:\s*(\d+)", meminfo),
        "numa_nodes": len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1,
        "governor": _file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "unknown",
        "smt": _file("/sys/devices/system/cpu/smt/active") or "unknown",
        "kernel": platform.release(),
        "kernel_cmdline": _file("/proc/cmdline"),
        "system": _field(r'^PRETTY_NAME="(.*)"$', _file("/etc/os-release")),
        "network": "no physical port: generator and switch share this machine's memory",
    }


def _package(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def versions() -> dict[str, str]:
    """Python's, its packages' and the Debian packages' versions."""
    return {
        "python": sys.version.split()[0],
        **{name: _package(name) for name in PACKAGES},
        **_debian_versions(),
    }


def build(
    scenarios: Sequence[Scenario], plan: CorePlan, timing: Timing, budget_s: float, seed: int
) -> dict[str, Any]:
    """The manifest of a campaign that is about to start; node facts are added once they are up."""
    described = [scenario.model_dump(mode="json") for scenario in scenarios]
    searches = [
        goals_of(scenario.measure, timing) for scenario in scenarios if scenario.measure.search
    ]
    return {
        "machine": machine(),
        "versions": versions(),
        "core_plan": plan.as_dict(),
        "definitions": {
            **DEFINITIONS,
            **{
                f"{' and '.join(key.metric for key in goals.goals)} (search “{goals.name}”)": (
                    goals.definition
                )
                for goals in searches
            },
        },
        "timing": vars(timing),
        "budget_s": budget_s,
        "seed": seed,
        "scenarios": described,
        "scenarios_sha256": sha256(json.dumps(described, sort_keys=True).encode()).hexdigest(),
    }
