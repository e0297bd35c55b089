# SPDX-License-Identifier: Apache-2.0
"""What memory the switch's heap, where its rules and groups are, asks the kernel for."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.switch import Switch

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

MODE = Path("/sys/kernel/mm/transparent_hugepage/enabled")


def heap_flags(pid: int) -> list[str]:
    """The flags of the heap's first mapping, as in proc_pid_smaps(5)."""
    heap = Path(f"/proc/{pid}/smaps").read_text().split("[heap]", 1)[1]
    return next(line for line in heap.splitlines() if line.startswith("VmFlags:")).split()[1:]


@pytest.mark.skipif(
    not MODE.exists() or "[madvise]" not in MODE.read_text(),
    reason="this kernel gives transparent hugepages to all or to none, not to who asks",
)
def test_the_heap_asks_for_transparent_hugepages(switch: Switch) -> None:
    assert switch.process is not None
    pid = switch.process.pid
    assert Path(f"/proc/{pid}/comm").read_text() == "headrace-switch\n"
    if any(name in Path(f"/proc/{pid}/maps").read_text() for name in ("libasan", "libtsan")):
        pytest.skip("a sanitizer's allocator has no [heap]")
    assert "hg" in heap_flags(pid)
