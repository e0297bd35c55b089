# SPDX-License-Identifier: Apache-2.0
"""What the host's own tools say of the machine on which the node runs: lscpu, free, df, ip, ps.

They are read as an operator would read them, and never through the node, so that a node that
misreads its machine is found out.
"""

import asyncio
import json
import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_MEMINFO = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)
_PCI = Path("/sys/bus/pci/devices")
_ACCELERATORS = ("0b40", "1200")
"""PCI classes of coprocessors and processing accelerators (PCI Code and ID Assignment, 1.11)."""


@dataclass(frozen=True)
class Processor:
    """What lscpu says."""

    cpus: int
    model: str
    architecture: str


@dataclass(frozen=True)
class Memory:
    """Octets, as `free` has them from /proc/meminfo."""

    total: int
    available: int


@dataclass(frozen=True)
class Disk:
    """Octets, as df says of the file system of a path."""

    total: int
    available: int


class Host:
    """The machine of this process."""

    async def processor(self) -> Processor:
        """Cores that are online, model and architecture."""
        said = json.loads(await _run("lscpu", "-J"))["lscpu"]
        fields = {row["field"].rstrip(":"): row["data"] for row in _flat(said)}
        return Processor(
            int(fields["CPU(s)"]), fields.get("Model name", ""), fields["Architecture"]
        )

    def memory(self) -> Memory:
        """Main memory."""
        kib = dict(_MEMINFO.findall(Path("/proc/meminfo").read_text()))
        return Memory(int(kib["MemTotal"]) << 10, int(kib["MemAvailable"]) << 10)

    async def disk(self, path: str) -> Disk:
        """The file system of a path."""
        said = await _run("df", "-B1", "--output=size,avail", path)
        total, available = said.splitlines()[1].split()
        return Disk(int(total), int(available))

    async def links(self) -> dict[str, dict[str, Any]]:
        """The kernel's interfaces by their names, as `ip -j link` has them."""
        return {link["ifname"]: link for link in json.loads(await _run("ip", "-j", "link"))}

    def accelerators(self) -> list[str]:
        """PCI addresses of coprocessors."""
        found = []
        for device in sorted(_PCI.glob("*")):
            code = (device / "class").read_text().strip().removeprefix("0x")
            if code.startswith(_ACCELERATORS):
                found.append(device.name)
        return found

    def has(self, program: str) -> bool:
        """Whether a program is installed."""
        return shutil.which(program) is not None

    def usable_cores(self) -> list[int]:
        """Cores on which this process may run."""
        return sorted(os.sched_getaffinity(0))

    async def processes(self) -> list[str]:
        """The command lines of all processes, as `ps` has them."""
        return (await _run("ps", "-eo", "args=")).splitlines()


def _flat(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for row in rows:
        found.append(row)
        found += _flat(row.get("children") or [])
    return found


async def _run(*words: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, env={**os.environ, "LC_ALL": "C"},
    )  # fmt: skip
    out, error = await process.communicate()
    if process.returncode:
        raise OSError(f"{' '.join(words)}: {error.decode(errors='replace').strip()}")
    return out.decode()
