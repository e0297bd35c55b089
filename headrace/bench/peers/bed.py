# SPDX-License-Identifier: Apache-2.0
"""The environment of a comparison: cores, a run directory with the source, running switches."""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from headrace.bench.manifest import machine, versions
from headrace.bench.peers.compare import Plan
from headrace.bench.peers.l3fwd import L3fwd
from headrace.bench.peers.switches import Headrace, OvsDpdk
from headrace.bench.peers.systems import PeerError, Place, System
from headrace.machine.programs import ProgramMissing, find_program

CONTROL_CORE, WORKER_CORE = 0, 1
MEMORY_MB = 512


@contextmanager
def on_the_control_core() -> Iterator[None]:
    """A context in which this command and its children don't run on the worker's core.

    Otherwise the tools that it calls would compete with the measured worker. The switches pin their
    workers themselves.
    """
    before = os.sched_getaffinity(0)
    if not {CONTROL_CORE, WORKER_CORE} <= before:
        raise PeerError("comparing switches needs core 1 for the worker, and core 0 for all else")
    os.sched_setaffinity(0, {CONTROL_CORE})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def switch_program() -> Path:
    """The default headrace-switch; PeerError with the remedy if it is missing."""
    try:
        return find_program("headrace-switch")
    except ProgramMissing as error:
        raise PeerError(str(error)) from error


def flow_source(program: Path) -> Path:
    """The plugin of the same build; PeerError with the remedy if it is missing."""
    plugin = program.parent.parent / "flowsource" / "libheadrace-flowsource.so"
    if not plugin.exists():
        raise PeerError(f"{plugin} is missing; run `make build`")
    return plugin


@contextmanager
def place(program: Path | None = None) -> Iterator[Place]:
    """A run directory with the flow source, removed afterwards; PeerError if it can't be created.

    The source is that of `program`'s build, or of the default build.
    """
    plugin = flow_source(switch_program() if program is None else program)
    if os.geteuid() != 0:
        raise PeerError("comparing switches needs root: they poll pinned cores and hugepages")
    # DPDK refuses plugins under a world-writable directory such as /tmp.
    with (
        on_the_control_core(),
        tempfile.TemporaryDirectory(prefix="headrace-peers-", dir="/run") as folder,
    ):
        root = Path(folder)
        (root / "flows").mkdir()
        own = root / plugin.name
        own.write_bytes(plugin.read_bytes())
        yield Place(root, root / "flows", own, WORKER_CORE, MEMORY_MB)


@contextmanager
def running(where: Place, *, with_l3fwd: bool) -> Iterator[list[System]]:
    """Headrace, OVS-DPDK and optionally l3fwd, with the switches started; terminated afterwards."""
    with started([Headrace(where, switch_program()), OvsDpdk(where)]) as switches:
        systems: list[System] = list(switches)
        with ExitStack() as stack:
            if with_l3fwd:
                systems.append(L3fwd(where))
                stack.callback(systems[-1].stop)
            yield systems


@contextmanager
def started(switches: Sequence[Headrace | OvsDpdk]) -> Iterator[Sequence[Headrace | OvsDpdk]]:
    """Starts the switches and stops them by SIGSTOP; terminates them afterwards."""
    with ExitStack() as stack:
        for switch in switches:
            stack.callback(switch.stop)
            switch.start()
            switch.park()
        yield switches


def manifest(plan: Plan) -> dict[str, Any]:
    """The setup, and what shares a core."""
    return {
        "machine": machine(),
        "versions": versions(),
        "l3fwd": "DPDK's example with LPM, built for this processor, soft packet types",
        "frames": "64 bytes with FCS",
        "source": "net_null with the flow source plugin (copies prepared frames), unpaced",
        "sink": "net_null",
        "worker_core": WORKER_CORE,
        "shared": f"core {CONTROL_CORE}: the switches' other threads (management, OpenFlow, "
        "OVSDB), this command and the tools that it calls, so a client and the switch that serves "
        f"it take turns; core {WORKER_CORE}: the worker, in which source and sink run too; "
        "only the measured system runs, the others are stopped",
        "windows": {"repeats": plan.repeats, "seconds": plan.window_s},
        "ratios": "median of the ratios of neighboring windows",
    }
