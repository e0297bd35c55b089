# SPDX-License-Identifier: Apache-2.0
"""Disks that boot by UEFI: Debian's kernel and an initramfs as one program of the firmware's.

The kernel, its command line and the initramfs are sections of systemd's EFI stub (a unified kernel
image). It lies where firmware looks on a disk that it has no entry for (UEFI 2.10, 3.5.1.1), in a
FAT file system on the disk's only partition. Nothing is mounted, and no root is needed.
"""

from __future__ import annotations

import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from headrace.engines.qemu import UEFI_CODE
from headrace.machine.guests.image import COMMAND_LINE
from headrace.machine.guests.initramfs import Initramfs
from headrace.machine.guests.kernel import GuestKernel

STUB = Path("/usr/lib/systemd/boot/efi/linuxx64.efi.stub")
SECTOR, FIRST = 512, 2048
_ESP = 0xEF  # the type of an EFI system partition in an MBR
_PROGRAMS = ("objcopy", "mformat", "mmd", "mcopy", "qemu-img")


def require_bootable() -> None:
    """Skips the test with the reason if this machine cannot make or boot such a disk."""
    if not STUB.exists():
        pytest.skip("systemd-boot-efi is not installed (make setup)")
    if not UEFI_CODE.exists():
        pytest.skip("ovmf is not installed (make setup)")
    for program in _PROGRAMS:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed (make setup)")


def uefi_disk(place: Path, kernel: GuestKernel, image: Initramfs) -> Path:
    """A new qcow2 disk in `place` that boots the kernel with this initramfs."""
    program = _unified(place, kernel, image.archive())
    size = -(-program.stat().st_size // (1 << 20)) + 8
    raw, disk = place / "disk.raw", place / "disk.qcow2"
    sectors = (size << 20) // SECTOR
    # One entry: not active, no cylinders, an EFI system partition over all that is left.
    entry = struct.pack("<B3sB3sII", 0, b"\xff" * 3, _ESP, b"\xff" * 3, FIRST, sectors)
    record = bytes(446) + entry + bytes(48) + b"\x55\xaa"
    with raw.open("wb") as out:
        out.write(record)
        out.truncate((FIRST + sectors) * SECTOR)
    partition = f"{raw}@@{FIRST * SECTOR}"
    _run("mformat", "-i", partition, "-T", sectors, "-h", 64, "-s", 32, "-v", "ESP", "::")
    _run("mmd", "-i", partition, "::/EFI", "::/EFI/BOOT")
    _run("mcopy", "-i", partition, program, "::/EFI/BOOT/BOOTX64.EFI")
    _run("qemu-img", "convert", "-f", "raw", "-O", "qcow2", raw, disk)
    raw.unlink()
    program.unlink()
    return disk


def _unified(place: Path, kernel: GuestKernel, archive: bytes) -> Path:
    """The stub with what it starts: sections, each behind the one before, at a MiB's boundary."""
    contents = {
        ".osrel": b"ID=guest\n",
        ".cmdline": COMMAND_LINE.encode(),
        ".linux": kernel.image.read_bytes(),
        ".initrd": archive,
    }
    words: list[str | int | Path] = ["objcopy"]
    address = 16 << 20
    for name, content in contents.items():
        file = place / f"section{name}"
        file.write_bytes(content)
        words += ["--add-section", f"{name}={file}", "--change-section-vma", f"{name}={address:#x}"]
        address += -(-len(content) // (1 << 20)) << 20
    program = place / "boot.efi"
    _run(*words, STUB, program)
    for name in contents:
        (place / f"section{name}").unlink()
    return program


def _run(*words: str | int | Path) -> None:
    subprocess.run([str(word) for word in words], check=True, capture_output=True)
