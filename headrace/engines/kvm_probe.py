# SPDX-License-Identifier: Apache-2.0
"""Whether KVM runs a guest here: asked by running one, for as long as a boot sector takes.

A device /dev/kvm and a processor with VMX or SVM are not enough: on machines that are guests
themselves both may be there while no guest gets on. So a disk of one sector is booted that writes
to QEMU's debug-exit port, by which QEMU ends with a code that nothing else gives. What does not end
in time does not work.
"""

import os
import subprocess
from functools import lru_cache
from pathlib import Path

from headrace.engines.qemu import PROGRAM, Accelerator

PATIENCE_S = 5.0
_DEVICE, _CPUS = Path("/dev/kvm"), Path("/proc/cpuinfo")
_PORT, _VALUE = 0xF4, 0x10
_WORKS = _VALUE << 1 | 1
"""The code with which QEMU's isa-debug-exit ends it."""

# mov al, value; out port, al; next: hlt; jmp next
_CODE = bytes((0xB0, _VALUE, 0xE6, _PORT, 0xF4, 0xEB, 0xFD))
_SECTOR = _CODE.ljust(510, b"\0") + b"\x55\xaa"
_DISK_OCTETS = 1 << 20


def why_not(
    accelerator: Accelerator = "kvm", program: str = PROGRAM, patience_s: float = PATIENCE_S
) -> str | None:
    """Why no guest runs with this accelerator; None if one has run. Blocks."""
    disk, reading = os.memfd_create("probe"), -1
    try:
        os.write(disk, _SECTOR)
        os.truncate(disk, _DISK_OCTETS)
        reading = os.open(f"/proc/self/fd/{disk}", os.O_RDONLY | os.O_CLOEXEC)
        words = [
            program,
            *("-nodefaults", "-no-user-config", "-display", "none", "-m", "16"),
            *("-machine", f"q35,accel={accelerator}"),
            *("-device", f"isa-debug-exit,iobase={_PORT:#x},iosize=0x4"),
            *("-add-fd", f"fd={reading},set=1"),
            *("-drive", "file=/dev/fdset/1,if=virtio,format=raw,snapshot=on"),
        ]
        done = subprocess.run(  # noqa: S603
            words,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=patience_s,
            pass_fds=[reading],
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"a guest of one sector has not ended after {patience_s:g} s"
    except OSError as error:
        return str(error)
    finally:
        for descriptor in (disk, reading):
            if descriptor >= 0:
                os.close(descriptor)
    if done.returncode == _WORKS:
        return None
    return f"{program} ended with {done.returncode}: {done.stderr.strip()[-300:]}"


@lru_cache(maxsize=1)
def usable_accelerator() -> Accelerator:
    """`kvm` if it runs guests on this machine, else `tcg`. The first call may take seconds."""
    if not _DEVICE.exists() or not _has_virtualization(_CPUS):
        return "tcg"
    return "tcg" if why_not() else "kvm"


def _has_virtualization(cpus: Path) -> bool:
    for line in cpus.read_text().splitlines():
        if line.startswith("flags"):
            return bool({"vmx", "svm"} & set(line.split()))
    return False
