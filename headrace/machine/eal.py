# SPDX-License-Identifier: Apache-2.0
"""Resources that DPDK's EAL needs from the machine, and files that it leaves behind."""

import contextlib
import os
import shutil
from pathlib import Path

import psutil

_PAGE_MB = 2
_COUNTS = ("free_hugepages", "resv_hugepages")
_PAGES = Path("/sys/kernel/mm/hugepages/hugepages-2048kB")
_MOUNTS = Path("/proc/mounts")
_REMEDY = "run `make setup`, or `sysctl vm.nr_hugepages=1024` and mount a hugetlbfs"


def hugepage_mounts() -> list[Path]:
    """The mount points of hugetlbfs."""
    lines = [line.split() for line in _MOUNTS.read_text().splitlines()]
    return [Path(fields[1]) for fields in lines if fields[2] == "hugetlbfs"]


def hugepages_free_mb() -> int | None:
    """MB of the machine in 2 MiB hugepages that nobody has or has reserved.

    None if the kernel has none of that size.
    """
    try:
        free, reserved = (int((_PAGES / name).read_text()) for name in _COUNTS)
        return max(0, free - reserved) * _PAGE_MB
    except (OSError, ValueError):
        return None


def hugepages_lacking(megabytes: int) -> str | None:
    """Why `megabytes` of 2 MiB hugepages are not available, with the remedy; None if they are."""
    if not hugepage_mounts():
        return f"no hugetlbfs is mounted; {_REMEDY}"
    free = hugepages_free_mb()
    if free is None:
        return "this kernel has no 2 MiB hugepages"
    if free < megabytes:
        return f"{free} MB are free in 2 MiB hugepages, {megabytes} MB are needed; {_REMEDY}"
    return None


def available_mb() -> int:
    """MB of ordinary memory available without swapping (MemAvailable of proc(5))."""
    return int(psutil.virtual_memory().available) >> 20


def remove_remains(file_prefix: str) -> None:
    """Removes the runtime directory and the hugepage files of a DPDK process that has ended."""
    # DPDK 22.11, eal_create_runtime_dir(): root's is fixed.
    user = os.environ.get("XDG_RUNTIME_DIR", "/tmp")  # noqa: S108
    base = Path("/var/run") if os.geteuid() == 0 else Path(user)
    shutil.rmtree(base / "dpdk" / file_prefix, ignore_errors=True)
    for mount in hugepage_mounts():
        for file in mount.glob(f"{file_prefix}map_*"):
            with contextlib.suppress(OSError):
                file.unlink()
