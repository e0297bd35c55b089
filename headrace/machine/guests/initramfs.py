# SPDX-License-Identifier: Apache-2.0
"""Builds an initramfs (a cpio archive in the `newc` format, kernel's buffer-format.rst) in memory.

No tool, no root, no compression: the kernel unpacks it faster than any decompressor runs under TCG.
"""

from __future__ import annotations

import os
import stat
import subprocess
from pathlib import Path

_LIBRARY_DIRECTORIES = ("lib", "lib64", "usr/lib")


class Initramfs:
    """Files by their path in the guest; directories come by themselves."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[int, bytes]] = {}

    def add(self, path: str, data: bytes, mode: int = 0o644) -> None:
        """A file with this content."""
        path = path.strip("/")
        for parent in reversed(Path(path).parents[:-1]):
            self._entries.setdefault(str(parent), (stat.S_IFDIR | 0o755, b""))
        self._entries[path] = (stat.S_IFREG | mode, data)

    def add_link(self, path: str, target: str) -> None:
        """A symbolic link."""
        self.add(path, target.encode())
        self._entries[path.strip("/")] = (stat.S_IFLNK | 0o777, target.encode())

    def add_file(self, source: Path, path: str | None = None) -> None:
        """A file of this machine, at the same place unless told otherwise.

        What is reached here by links is so there too: DPDK must not load one driver as two files.
        """
        real = source.resolve()
        if path is None and real != source:
            self.add_link(str(source), str(real))
            source = real
        mode = 0o755 if os.access(source, os.X_OK) else 0o644
        self.add(path or str(source), source.read_bytes(), mode)

    def add_program(self, source: Path, *plugins: Path) -> None:
        """A program, with all shared libraries that it and what it loads itself need; in /bin.

        All are at their own places, since the linker may look for libraries beside the program.
        """
        source = source.resolve()
        for item in (source, *plugins, *shared_libraries(source, *plugins)):
            self.add_file(item)
        self.add_link(f"/bin/{source.name}", str(source))

    def archive(self) -> bytes:
        """The archive."""
        out = bytearray()
        for number, (path, (mode, data)) in enumerate(self._entries.items(), 1):
            out += _record(number, path, mode, data)
        return bytes(out + _record(0, "TRAILER!!!", 0, b""))


def _record(number: int, path: str, mode: int, data: bytes) -> bytes:
    name = path.encode() + b"\0"
    fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
    head = b"070701" + "".join(f"{value:08X}" for value in fields).encode() + name
    return _padded(head) + _padded(data)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


def shared_libraries(*objects: Path) -> list[Path]:
    """The shared libraries that programs or libraries need, as the dynamic linker finds them."""
    found: dict[Path, None] = {}
    for item in objects:
        done = subprocess.run(  # noqa: S603
            ["/usr/bin/ldd", str(item)], capture_output=True, text=True, check=True
        )
        for line in done.stdout.splitlines():
            words = line.split()
            path = words[2] if len(words) > 2 and words[1] == "=>" else words[0]
            if path.startswith("/"):
                found[Path(path)] = None
    return list(found)
