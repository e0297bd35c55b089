# SPDX-License-Identifier: Apache-2.0
"""Disk images for tests: one that boots and says a word on its serial port, and wrong ones."""

import subprocess
from pathlib import Path

SECTOR = 512


def boots(word: str) -> bytes:
    """A raw disk whose boot sector writes `word` to the first serial port, and halts."""
    text = word.encode() + b"\r\n\0"
    code = bytes.fromhex(
        "31c0"  # xor ax, ax
        "8ed8"  # mov ds, ax
        "be187c"  # mov si, 0x7c18: the text, behind these 24 octets
        "fc"  # cld
        "ac"  # next: lodsb
        "08c0"  # or al, al
        "7406"  # jz end
        "baf803"  # mov dx, COM1
        "ee"  # out dx, al
        "ebf5"  # jmp next
        "f4"  # end: hlt
        "ebfd"  # jmp end
        "9090"
    )
    sector = (code + text).ljust(SECTOR - 2, b"\0") + b"\x55\xaa"
    assert (code[5], code[6]) == (len(code), 0x7C) and len(sector) == SECTOR
    return sector + bytes(2047 * SECTOR)


def qcow2(directory: Path, raw: bytes, *options: str) -> bytes:
    """The same disk as qcow2."""
    source, target = directory / "source.raw", directory / "target.qcow2"
    source.write_bytes(raw)
    command = ["qemu-img", "convert", "-f", "raw", "-O", "qcow2", *options]
    subprocess.run([*command, str(source), str(target)], check=True, capture_output=True)
    return target.read_bytes()


def with_backing(directory: Path) -> bytes:
    """A qcow2 image of a disk whose content is in another file of the host."""
    base, target = directory / "base.raw", directory / "over.qcow2"
    base.write_bytes(bytes(1 << 20))
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(base)]
    subprocess.run([*command, str(target)], check=True)
    return target.read_bytes()


def with_data_file(directory: Path) -> bytes:
    """A qcow2 image whose clusters are in another file of the host."""
    target = directory / "external.qcow2"
    options = f"data_file={directory / 'data.raw'},data_file_raw=on"
    command = ["qemu-img", "create", "-q", "-f", "qcow2", "-o", options, str(target), "1M"]
    subprocess.run(command, check=True)
    return target.read_bytes()
