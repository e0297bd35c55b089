# SPDX-License-Identifier: Apache-2.0
"""Disk images of virtual machines that others have made: what they are, and what they must not be.

A qcow2 image can name other files, which QEMU then opens: a backing file, or an external data file.
In an image of a user's that is any file of the host, so such images are refused; so are formats
other than qcow2 and raw, of which several can do the same. QEMU is told the format that is found
here: if it were to probe, a guest could write another format's header to its raw disk (QEMU's
documentation of disk images, section on probing).

The layout is that of QEMU's docs/interop/qcow2.txt; all numbers are big-endian.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

SECTOR = 512

_QCOW_MAGIC = b"QFI\xfb"
_HEADER_2 = struct.Struct(">4sIQIIQIIQQIIQ")
_HEADER_3 = struct.Struct(">QQQII")
_EXTENSION = struct.Struct(">II")
_END, _DATA_FILE = 0, 0x44415441
_DIRTY, _CORRUPT, _EXTERNAL = 1 << 0, 1 << 1, 1 << 2
_UNDERSTOOD = _DIRTY | _CORRUPT | _EXTERNAL | 1 << 3 | 1 << 4  # and compression, extended L2
_MOST_EXTENSIONS = 64

_OTHERS: tuple[tuple[int, bytes, str], ...] = (
    (0, b"KDMV", "a VMDK image"),
    (0, b"COWD", "a VMDK image"),
    (0, b"# Disk DescriptorFile", "a VMDK descriptor"),
    (0, b"vhdxfile", "a VHDX image"),
    (0, b"conectix", "a VHD image"),
    (0, b"QED\0", "a QED image"),
    (0, b"WithoutFreeSpace", "a Parallels image"),
    (0, b"WithouFreSpacExt", "a Parallels image"),
    (0, b"LUKS\xba\xbe", "an encrypted image"),
    (64, b"\x7f\x10\xda\xbe", "a VDI image"),
    (0, b"\x1f\x8b", "compressed by gzip"),
    (0, b"\xfd7zXZ\0", "compressed by xz"),
    (0, b"BZh", "compressed by bzip2"),
    (0, b"\x28\xb5\x2f\xfd", "compressed by zstd"),
    (0, b"PK\x03\x04", "a zip archive"),
    (257, b"ustar", "a tar archive"),
)


class ImageError(Exception):
    """A file is no image that a virtual machine may be given; the text says why."""


@dataclass(frozen=True)
class DiskImage:
    """What an image is: `qcow2` or `raw`, and the octets of the disk that a guest sees."""

    format: str
    virtual_size: int


def inspect(path: Path, max_virtual_size: int) -> DiskImage:
    """Reads the head of an image.

    Raises:
        ImageError: it is not to be used.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    with path.open("rb") as file:
        head = file.read(1 << 16)
    image = _qcow2(head, size) if head.startswith(_QCOW_MAGIC) else _raw(head, size)
    if image.virtual_size > max_virtual_size:
        raise ImageError(
            f"its disk has {image.virtual_size} octets, {max_virtual_size} are allowed"
        )
    return image


def _raw(head: bytes, size: int) -> DiskImage:
    for offset, magic, name in _OTHERS:
        if head[offset:].startswith(magic):
            raise ImageError(f"it is {name}; convert it to qcow2 or raw")
    if size == 0 or size % SECTOR:
        raise ImageError(f"a raw image is a multiple of {SECTOR} octets long, not {size}")
    return DiskImage("raw", size)


def _qcow2(head: bytes, size: int) -> DiskImage:
    if len(head) < _HEADER_2.size:
        raise ImageError("its qcow2 header is cut off")
    (_, version, backing_offset, backing_size, cluster_bits, virtual, crypt, *_) = (
        _HEADER_2.unpack_from(head)
    )
    if version not in (2, 3):
        raise ImageError(f"it is qcow version {version}; only 2 and 3 are known")
    if backing_offset or backing_size:
        raise ImageError("it has a backing file; `qemu-img convert -O qcow2` makes one without")
    if crypt:
        raise ImageError("it is encrypted")
    if not 9 <= cluster_bits <= 21 or size < 1 << cluster_bits:
        raise ImageError("its qcow2 header is damaged")
    length = _HEADER_2.size
    if version == 3:
        if len(head) < length + _HEADER_3.size:
            raise ImageError("its qcow2 header is cut off")
        features, _, _, _, length = _HEADER_3.unpack_from(head, length)
        if features & _EXTERNAL:
            raise ImageError("it has an external data file")
        if features & (_DIRTY | _CORRUPT):
            raise ImageError("it was not closed, or is corrupt; `qemu-img check -r all` mends it")
        if features & ~_UNDERSTOOD:
            raise ImageError(f"it has features that are not known: {features:#x}")
        if not _HEADER_2.size + _HEADER_3.size <= length <= len(head):
            raise ImageError("its qcow2 header is damaged")
    _check_extensions(head[: 1 << cluster_bits], length)
    if virtual == 0:
        raise ImageError("its disk is empty")
    return DiskImage("qcow2", virtual)


def _check_extensions(cluster: bytes, at: int) -> None:
    for _ in range(_MOST_EXTENSIONS):
        if at + _EXTENSION.size > len(cluster):
            return
        kind, length = _EXTENSION.unpack_from(cluster, at)
        if kind == _END:
            return
        if kind == _DATA_FILE:
            raise ImageError("it names an external data file")
        at += _EXTENSION.size + -(-length // 8) * 8
    raise ImageError("its qcow2 header has too many extensions")
