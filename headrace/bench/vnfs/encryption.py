# SPDX-License-Identifier: Apache-2.0
"""Frames encrypted like a base station's security gateway does, before a measurement.

headrace-vnf's function `basestation`, with its two ends exchanged, encrypts them, so there is no
second implementation of ESP. It reads a capture file and writes another.
"""

import json
import struct
import subprocess
import tempfile
import time
from functools import cache
from pathlib import Path

import numpy as np

from headrace.bench.peers.frames import Bytes
from headrace.machine.programs import find_program
from headrace.protocols.control import ControlError, call_blocking

TIMEOUT_S = 20.0
_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)


def write_capture(path: Path, frames: Bytes) -> None:
    """A pcap file (the classic format, Ethernet)."""
    record = struct.pack("<IIII", 0, 0, frames.shape[1], frames.shape[1])
    path.write_bytes(_HEADER + b"".join(record + bytes(frame) for frame in frames))


def read_capture(path: Path) -> list[bytes]:
    """The frames of a pcap file, complete ones only."""
    data = path.read_bytes() if path.exists() else b""
    frames, offset = [], len(_HEADER)
    while offset + 16 <= len(data):
        size = struct.unpack_from("<I", data, offset + 8)[0]
        if offset + 16 + size > len(data):
            break
        frames.append(data[offset + 16 : offset + 16 + size])
        offset += 16 + size
    return frames


def _received(control: Path) -> int:
    """The frames that the gateway has taken in; 0 while it does not answer yet."""
    try:
        counters = call_blocking(control, "counters")
    except ControlError:
        return 0
    return int(counters["ports"]["a"]["rx_packets"])


@cache
def _encrypted(configuration: str, raw: bytes, length: int, macs: tuple[str, str]) -> Bytes:
    frames = np.frombuffer(raw, np.uint8).reshape(-1, length)
    with tempfile.TemporaryDirectory(prefix="headrace-encrypt-") as folder:
        place = Path(folder)
        write_capture(place / "in.pcap", frames)
        write_capture(place / "none.pcap", frames[:0])
        ports = [
            {"name": "a", "devargs": f"net_pcap0,rx_pcap={place}/in.pcap", "mac": macs[0]},
            {
                "name": "b",
                "devargs": f"net_pcap1,rx_pcap={place}/none.pcap,tx_pcap={place}/out.pcap",
                "mac": macs[1],
            },
        ]
        config = {"eal": {"hugepages": "off"}, "cpu": 0, "ports": ports}
        config["function"] = json.loads(configuration)
        (place / "vnf.json").write_text(json.dumps(config))
        program = find_program("headrace-vnf")
        control = place / "vnf.ctl"
        command = [str(program), "basestation", "--config", str(place / "vnf.json")]
        command += ["--ctl", str(control)]
        with (place / "log").open("wb") as log:
            child = subprocess.Popen(command, stdout=log, stderr=log)  # noqa: S603
        try:
            deadline = time.monotonic() + TIMEOUT_S
            while _received(control) < len(frames):
                if child.poll() is not None or time.monotonic() > deadline:
                    break
                time.sleep(0.05)
        finally:
            # Buffered stdio output is written when it exits.
            child.terminate()
            child.wait(10)
        encrypted = read_capture(place / "out.pcap")
        words = (place / "log").read_text(errors="replace")[-300:]
    if len(encrypted) != len(frames):
        raise OSError(f"the gateway encrypted {len(encrypted)} of {len(frames)} frames: {words}")
    return np.frombuffer(b"".join(encrypted), np.uint8).reshape(len(encrypted), -1)


def encrypted(configuration: dict[str, object], frames: Bytes, macs: tuple[str, str]) -> Bytes:
    """`frames` encrypted by a base station with this configuration and these ports' addresses.

    The same call gives the same array: a gateway runs once for each.

    Raises:
        OSError: it could not run, or did not encrypt all of them.
    """
    return _encrypted(json.dumps(configuration), frames.tobytes(), frames.shape[1], macs)
