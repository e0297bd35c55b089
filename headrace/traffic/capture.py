# SPDX-License-Identifier: Apache-2.0
"""Receives at a port and writes what arrives to a pcap file, by headrace-vnf `pass` between them.

The file is written by DPDK's pcap driver, whole packets after each poll, so it can be read while it
grows. `frames` reads it, `described` says in one line what a frame is.
"""

import asyncio
import ipaddress
import json
import struct
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from headrace.machine.processes import UNTIL_PARENT_ENDS
from headrace.machine.programs import find_program

_FILE_HEADER = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
_FRAME_HEADER = struct.Struct("<IIII")
_LOOK_EVERY_S = 0.05
_END_S = 5.0
_VLAN_TYPES = (0x8100, 0x88A8)
_PROTOCOLS = {1: "ICMP", 6: "TCP", 17: "UDP", 58: "ICMPv6"}


class CaptureError(Exception):
    """The port cannot be received from; the text says why."""


@asynccontextmanager
async def capturing(devargs: str, cpu: int, file: Path) -> AsyncIterator[None]:
    """Within it, what arrives at the port of `devargs` is appended to `file`; on core `cpu`.

    Raises:
        CaptureError: the program does not start, or has ended by itself.
    """
    with tempfile.TemporaryDirectory(prefix="headrace-capture-") as name:
        place = Path(name)
        nothing = place / "nothing.pcap"
        nothing.write_bytes(_FILE_HEADER)
        config = {
            "eal": {"hugepages": "off", "memory_mb": 64},
            "cpu": cpu,
            "idle": "sleep",
            "ports": [
                {"name": "port", "devargs": devargs},
                {"name": "file", "devargs": f"net_pcap9,rx_pcap={nothing},tx_pcap={file}"},
            ],
        }
        (place / "vnf.json").write_text(json.dumps(config))
        words = [str(find_program("headrace-vnf")), "pass", "--config", str(place / "vnf.json")]
        process = await asyncio.create_subprocess_exec(
            *UNTIL_PARENT_ENDS,
            *words,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        waiting = asyncio.create_task(process.communicate())
        try:
            yield
            if process.returncode is not None:
                said = (await waiting)[1].decode(errors="replace").strip().splitlines()
                raise CaptureError(said[-1] if said else "headrace-vnf ended by itself")
        finally:
            if process.returncode is None:
                process.terminate()
                try:
                    await asyncio.wait_for(asyncio.shield(waiting), _END_S)
                except TimeoutError:
                    process.kill()
            await waiting


async def frames(file: Path) -> AsyncIterator[bytes]:
    """Every frame of a growing pcap file, without an end; cancel it."""
    at = len(_FILE_HEADER)
    while True:
        data = await asyncio.to_thread(_from, file, at)
        taken = 0
        while taken + _FRAME_HEADER.size <= len(data):
            size = _FRAME_HEADER.unpack_from(data, taken)[2]
            end = taken + _FRAME_HEADER.size + size
            if end > len(data):
                break
            yield data[taken + _FRAME_HEADER.size : end]
            taken = end
        at += taken
        await asyncio.sleep(_LOOK_EVERY_S)


def _from(file: Path, at: int) -> bytes:
    """What a file has from octet `at` on; nothing if it is not there yet."""
    try:
        with file.open("rb") as stream:
            stream.seek(at)
            return stream.read()
    except FileNotFoundError:
        return b""


def described(frame: bytes) -> str:
    """A frame in one line: addresses, VLANs, protocol and ports, octets without the FCS."""
    text = f"{_mac(frame[6:12])} > {_mac(frame[:6])}"
    at, kind = 14, int.from_bytes(frame[12:14], "big")
    while kind in _VLAN_TYPES and len(frame) >= at + 4:
        text += f" VLAN {int.from_bytes(frame[at : at + 2], 'big') & 0xFFF}"
        kind, at = int.from_bytes(frame[at + 2 : at + 4], "big"), at + 4
    packet = frame[at:]
    if kind == 0x0800 and len(packet) >= 20:
        length = (packet[0] & 15) * 4
        text += _ip(packet[12:16], packet[16:20], packet[9], packet[length:])
    elif kind == 0x86DD and len(packet) >= 40:
        text += _ip(packet[8:24], packet[24:40], packet[6], packet[40:])
    elif kind == 0x0806:
        text += " ARP"
    else:
        text += f" type 0x{kind:04x}"
    return f"{text}, {len(frame)} octets"


def _ip(source: bytes, target: bytes, protocol: int, content: bytes) -> str:
    first, second = (str(ipaddress.ip_address(address)) for address in (source, target))
    if protocol in (6, 17) and len(content) >= 4:
        ports = struct.unpack("!HH", content[:4])
        first, second = f"{first}:{ports[0]}", f"{second}:{ports[1]}"
    return f" {_PROTOCOLS.get(protocol, f'protocol {protocol}')} {first} > {second}"


def _mac(octets: bytes) -> str:
    return octets.hex(":")
