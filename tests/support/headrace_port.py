# SPDX-License-Identifier: Apache-2.0
"""libheadrace-port by ctypes: VNFs that do in a test what the test says, call by call."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import pytest

from headrace.machine.programs import find_program

_BURST = 32


class _Packet(ctypes.Structure):
    """hrp_packet."""

    _fields_ = (
        ("buffer", ctypes.c_uint32),
        ("begin", ctypes.c_uint16),
        ("length", ctypes.c_uint16),
    )


_Packets = _Packet * _BURST


def library_path() -> Path:
    """The library of the checkout's build, else the one beside the programs.

    Programs with sanitizers ($HEADRACE_BUILD) have one beside them that Python can't load.
    """
    folder = Path(__file__).resolve().parents[2] / "build" / "dataplane"
    if not folder.exists():
        folder = find_program("headrace-switch").parent.parent
    return folder / "shm" / "libheadrace-port.so"


def _load() -> ctypes.CDLL:
    path = library_path()
    if not path.exists():
        pytest.skip(f"{path} is not built; run `make build`")
    library = ctypes.CDLL(str(path))
    port, packets, count = ctypes.c_void_p, ctypes.POINTER(_Packet), ctypes.c_uint32
    signatures = {
        "hrp_attach": (ctypes.c_int, ctypes.c_char_p, ctypes.c_char_p, ctypes.POINTER(port)),
        "hrp_detach": (None, port),
        "hrp_rx": (count, port, packets, count),
        "hrp_tx": (count, port, packets, count),
        "hrp_forward": (count, port, port, packets, count),
        "hrp_is_connected": (ctypes.c_int, port),
        "hrp_alloc": (count, port, packets, count),
        "hrp_free": (None, port, packets, count),
        "hrp_data": (ctypes.c_void_p, port, packets),
        "hrp_set": (ctypes.c_int, port, packets, count, count),
        "hrp_room": (count, port),
        "hrp_is_direct": (ctypes.c_int, port),
    }
    for name, (result, *arguments) in signatures.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class VnfPort:
    """One port, attached until close()."""

    def __init__(self, socket: Path, name: str, *, patience_s: float = 10.0) -> None:
        self.library = _load()
        self._port = ctypes.c_void_p()
        end = time.monotonic() + patience_s
        while True:
            error = self.library.hrp_attach(
                os.fsencode(socket), name.encode(), ctypes.byref(self._port)
            )
            if error == 0:
                return
            if time.monotonic() > end:
                raise OSError(-error, f"{os.strerror(-error)}: port {name} at {socket}")
            time.sleep(0.01)

    def close(self) -> None:
        """Gives the port back."""
        self.library.hrp_detach(self._port)

    @property
    def is_direct(self) -> bool:
        """Whether what is sent goes straight to the next VNF."""
        return bool(self.library.hrp_is_direct(self._port))

    @property
    def is_connected(self) -> bool:
        """Whether the switch is still there."""
        return bool(self.library.hrp_is_connected(self._port))

    def take_all(self) -> list[int]:
        """All empty buffers that wait for this port, by number; give_back() returns them."""
        taken: list[int] = []
        packets = _Packets()
        while count := self.library.hrp_alloc(self._port, packets, _BURST):
            taken += [packet.buffer for packet in packets[:count]]
        return taken

    def give_back(self, buffers: set[int]) -> None:
        """Frees what take_all() took."""
        for number in buffers:
            self._free([_Packet(buffer=number)])

    def send(self, frames: list[bytes]) -> int:
        """Sends up to 32 frames in one burst; how many found a buffer and a place."""
        packets = _Packets()
        taken = self.library.hrp_alloc(self._port, packets, min(len(frames), _BURST))
        for packet, frame in zip(packets[:taken], frames, strict=False):
            assert self.library.hrp_set(self._port, packet, packet.begin, len(frame)) == 0
            ctypes.memmove(self.library.hrp_data(self._port, packet), frame, len(frame))
        sent = int(self.library.hrp_tx(self._port, packets, taken))
        self._free(packets[sent:taken])
        return sent

    def receive(self) -> list[bytes]:
        """What one call brings, at most 32 frames."""
        packets = _Packets()
        count = self.library.hrp_rx(self._port, packets, _BURST)
        frames = [
            ctypes.string_at(self.library.hrp_data(self._port, packet), packet.length)
            for packet in packets[:count]
        ]
        self._free(packets[:count])
        return frames

    def forward(self, to: VnfPort) -> int:
        """Sends what one call brings on by another port, the same buffers; how many."""
        packets = _Packets()
        count = self.library.hrp_rx(self._port, packets, _BURST)
        sent = int(self.library.hrp_forward(self._port, to._port, packets, count))
        self._free(packets[sent:count])
        return sent

    def _free(self, packets: list[_Packet]) -> None:
        self.library.hrp_free(self._port, _Packets(*packets), len(packets))
