# SPDX-License-Identifier: Apache-2.0
"""How long each core was in the kernel's network softirqs, counted at their begin and end.

/proc/stat gives softirq time by samples of the clock tick (unless the kernel accounts for interrupt
time), which in a window of half a second may be off by more than there is. Two small BPF programs
at the tracepoints `softirq_entry` and `softirq_exit` count exactly (bpf(2), raw tracepoints; the
programs are a few instructions, written here as such, so no compiler and no library is needed).
Only NET_TX and NET_RX are counted: packets that are forwarded, and those of others.
"""

import ctypes
import os
import platform
import struct
from pathlib import Path

_SYSCALLS = {"x86_64": 321, "aarch64": 280}
_MAP_CREATE, _MAP_LOOKUP, _PROG_LOAD, _RAW_TRACEPOINT_OPEN = 0, 1, 5, 17
_PERCPU_ARRAY, _RAW_TRACEPOINT = 6, 17
_LOOKUP_ELEM, _KTIME_GET_NS = 1, 5
_NET_TX, _NET_RX = 2, 3
_BEGIN, _TOTAL, _SIZE = 0, 8, 16
"""Of a core's value: begin of the softirq that runs, nanoseconds so far."""


class NoSoftirqTime(Exception):
    """The kernel does not let it be counted; the text says why."""


def _instruction(code: int, to: int = 0, of: int = 0, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("<BBhi", code, to | of << 4, offset, value)


def _load(to: int, of: int, offset: int) -> bytes:
    return _instruction(0x79, to, of, offset)


def _store(to: int, offset: int, of: int) -> bytes:
    return _instruction(0x7B, to, of, offset)


def _copy(to: int, of: int) -> bytes:
    return _instruction(0xBF, to, of)


def _call(helper: int) -> bytes:
    return _instruction(0x85, value=helper)


def _begin_of(cells: int, body: list[bytes]) -> bytes:
    """Finds the core's value (r6) if the softirq is a network one, then does `body`; returns 0."""
    find = [
        _instruction(0x7A, 10, 0, -8, 0),  # key 0 on the stack
        _instruction(0x18, 1, 1, 0, cells),  # r1 = map (two slots)
        _instruction(0x00),
        _copy(2, 10),
        _instruction(0x07, 2, value=-8),
        _call(_LOOKUP_ELEM),
        # if r0 == 0: to the end
        _instruction(0x15, 0, 0, len(body) + 1, 0),
        _copy(6, 0),
        *body,
    ]
    whole = [
        _load(7, 1, 0),  # r7 = number of the softirq
        _instruction(0x15, 7, 0, 1, _NET_RX),
        _instruction(0x55, 7, 0, len(find), _NET_TX),
        *find,
        _instruction(0xB7, 0, value=0),
        _instruction(0x95),
    ]
    return b"".join(whole)


def _entry(cells: int) -> bytes:
    return _begin_of(cells, [_call(_KTIME_GET_NS), _store(6, _BEGIN, 0)])


def _exit(cells: int) -> bytes:
    body = [
        _load(8, 6, _BEGIN),
        _instruction(0x15, 8, 0, 7, 0),  # not seen to begin
        _call(_KTIME_GET_NS),
        _instruction(0x1F, 0, 8),  # r0 -= begin
        _load(1, 6, _TOTAL),
        _instruction(0x0F, 1, 0),  # r1 += r0
        _store(6, _TOTAL, 1),
        _instruction(0xB7, 8, value=0),
        _store(6, _BEGIN, 8),
    ]
    return _begin_of(cells, body)


class SoftirqTime:
    """Counts from its making until `close`.

    Raises:
        NoSoftirqTime: the kernel refuses it, or the processor's system calls are not known.
    """

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._number = _SYSCALLS.get(platform.machine(), -1)
        if self._number < 0:
            raise NoSoftirqTime(f"bpf(2) is not known for {platform.machine()}")
        self._open: list[int] = []
        try:
            self._cells = self._bpf(
                _MAP_CREATE, struct.pack("<IIIII", _PERCPU_ARRAY, 4, _SIZE, 1, 0)
            )
            for name, program in (("softirq_exit", _exit), ("softirq_entry", _entry)):
                self._attach(name, program(self._cells))
        except OSError as error:
            self.close()
            raise NoSoftirqTime(f"bpf: {error.strerror}") from error

    def _bpf(self, command: int, attributes: bytes) -> int:
        buffer = ctypes.create_string_buffer(attributes, 144)
        result = int(self._libc.syscall(self._number, command, buffer, 144))
        if result < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        if command != _MAP_LOOKUP:
            self._open.append(result)
            os.set_inheritable(result, False)
        return result

    def _attach(self, tracepoint: str, instructions: bytes) -> None:
        code = ctypes.create_string_buffer(instructions, len(instructions))
        license_ = ctypes.create_string_buffer(b"Apache-2.0")
        count = len(instructions) // 8
        program = self._bpf(
            _PROG_LOAD,
            struct.pack("<IIQQ", _RAW_TRACEPOINT, count, ctypes.addressof(code),
                        ctypes.addressof(license_)),
        )  # fmt: skip
        name = ctypes.create_string_buffer(tracepoint.encode())
        self._bpf(_RAW_TRACEPOINT_OPEN, struct.pack("<QI", ctypes.addressof(name), program))

    def nanoseconds(self) -> list[int]:
        """By core, the time in network softirqs so far."""
        cores = _possible()
        key = ctypes.create_string_buffer(4)
        value = ctypes.create_string_buffer(_SIZE * cores)
        pointers = (ctypes.addressof(key), ctypes.addressof(value), 0)
        self._bpf(_MAP_LOOKUP, struct.pack("<IIQQQ", self._cells, 0, *pointers))
        cells = struct.unpack(f"<{2 * cores}Q", value.raw)
        return list(cells[1::2])

    def close(self) -> None:
        """Takes the programs off."""
        for descriptor in self._open:
            os.close(descriptor)
        self._open = []


def _possible() -> int:
    """Cores for which the kernel has room."""
    text = Path("/sys/devices/system/cpu/possible").read_text().strip()
    return int(text.rpartition(",")[2].rpartition("-")[2]) + 1
