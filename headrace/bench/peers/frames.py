# SPDX-License-Identifier: Apache-2.0
"""Prepared frames for the flow source plugin (dataplane/flowsource/flow_source.cc).

A frames file is a 64-byte header (magic, count, length, stride, whether lengths follow) and `count`
slots of `stride` bytes with one frame each, without FCS; then, if the frames differ in length, the
length of each as 16 bits.
"""

import struct
from pathlib import Path

import numpy as np
import numpy.typing as npt

MAGIC = b"HRFRAMES"
ETHERNET_IPV4_UDP = 42
MINIMUM = 60  # octets of the least frame, without FCS

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]


def mac(text: str) -> bytes:
    """The six octets of `aa:bb:cc:dd:ee:ff`."""
    return bytes(int(part, 16) for part in text.split(":"))


def mac_text(number: int) -> str:
    """A locally administered unicast address, numbered."""
    return "02:00:" + number.to_bytes(4, "big").hex(":")


def be32(values: Words) -> Bytes:
    """Each value as four octets, network order: shape (n, 4)."""
    octets: Bytes = values.astype(">u4").view(np.uint8).reshape(-1, 4)
    return octets


def ipv4_checksums(headers: Bytes) -> Bytes:
    """The header checksums (RFC 1071) of 20-octet headers whose checksum field is zero."""
    total = headers.view(">u2").reshape(len(headers), 10).astype(np.uint64).sum(axis=1)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    sums: Bytes = (~total & 0xFFFF).astype(">u2").view(np.uint8).reshape(-1, 2)
    return sums


def udp_frames(
    *,
    eth_dst: Bytes | bytes,
    eth_src: bytes,
    ipv4_src: Words,
    ipv4_dst: Words,
    udp_src: int = 1024,
    udp_dst: int = 2048,
    length: int = MINIMUM,
    protocol: int = 17,
) -> Bytes:
    """Ethernet/IPv4/UDP frames, one row each; `length` octets without FCS (60 is "64 bytes").

    `eth_dst` is one address for all or one row per frame; addresses are host-order numbers. With
    another IPv4 `protocol`, what follows the IPv4 header is the caller's to fill.
    """
    count = len(ipv4_dst)
    frames = np.zeros((count, length), dtype=np.uint8)
    frames[:, 0:6] = np.frombuffer(eth_dst, np.uint8) if isinstance(eth_dst, bytes) else eth_dst
    frames[:, 6:12] = np.frombuffer(eth_src, np.uint8)
    frames[:, 12:14] = (0x08, 0x00)
    header = struct.pack("!BBHHHBBH", 0x45, 0, length - 14, 0, 0, 64, protocol, 0)
    ip = np.zeros((count, 20), dtype=np.uint8)
    ip[:, 0:12] = np.frombuffer(header, np.uint8)
    ip[:, 12:16] = be32(ipv4_src)
    ip[:, 16:20] = be32(ipv4_dst)
    ip[:, 10:12] = ipv4_checksums(ip)
    frames[:, 14:34] = ip
    udp = struct.pack("!HHHH", udp_src, udp_dst, length - 34, 0)
    frames[:, 34:42] = np.frombuffer(udp, np.uint8)
    return frames


def vxlan_frames(
    *,
    inner: Bytes,
    vni: Words,
    eth_dst: bytes,
    eth_src: bytes,
    ipv4_src: Words,
    ipv4_dst: Words,
    udp_src: Words,
) -> Bytes:
    """`inner` frames behind Ethernet/IPv4/UDP/VXLAN headers (RFC 7348), one row each."""
    count, carried = inner.shape
    outer = udp_frames(
        eth_dst=eth_dst,
        eth_src=eth_src,
        ipv4_src=ipv4_src,
        ipv4_dst=ipv4_dst,
        udp_dst=4789,
        length=ETHERNET_IPV4_UDP + 8 + carried,
    )
    outer[:, 34:36] = be32(udp_src)[:, 2:]
    outer[:, 42] = 0x08
    outer[:, 46:49] = be32(vni)[:, 1:]
    outer[:, 50:] = inner
    assert outer.shape[0] == count
    return outer


def write(path: Path, frames: Bytes, lengths: npt.NDArray[np.uint16] | None = None) -> None:
    """Writes a frames file, or replaces it at once: a device that serves it goes over to it.

    With `lengths`, that many octets of each frame are served instead of all.
    """
    count, length = frames.shape
    stride = -(-length // 64) * 64
    slots = np.zeros((count, stride), dtype=np.uint8)
    slots[:, :length] = frames
    header = MAGIC + struct.pack("<IIII", count, length, stride, lengths is not None)
    tail = b"" if lengths is None else lengths.astype("=u2").tobytes()
    new = path.with_suffix(".new")
    new.write_bytes(header.ljust(64, b"\0") + slots.tobytes() + tail)
    new.rename(path)


def serve(path: Path, prepared: Path) -> None:
    """Replaces a frames file at once by one that write() has prepared beside it."""
    new = path.with_suffix(".new")
    new.hardlink_to(prepared)
    new.rename(path)
    # Renaming does nothing between two names of one file: it was served already.
    new.unlink(missing_ok=True)


def close(path: Path) -> None:
    """Closes the source of a frames file: its device hands out nothing until write()."""
    write(path, np.zeros((0, MINIMUM), dtype=np.uint8))


def served(flow_dir: Path, device: str, pid: int) -> int:
    """Frames that a device of a process has handed out so far."""
    counts = np.fromfile(flow_dir / f"{device}.{pid}.served", dtype=np.uint64)
    return int(counts.sum())
