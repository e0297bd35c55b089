# SPDX-License-Identifier: Apache-2.0
"""Prepared frames for the flow source plugin (dataplane/flowsource/flow_source.cc).

A frames file is a 64-byte header (magic, count, length, stride, whether lengths follow, and the
`Pace`: rate, burst, whether Poisson, spin) and `count`
slots of `stride` bytes with one frame each, without FCS; then, if the frames differ in length, the
length of each as 16 bits.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

MAGIC = b"HRFRAMES"
ETHERNET_IPV4_UDP = 42
ETHERNET_IPV6_UDP = 62
ETHERNET_IPV6_TCP = 74
MINIMUM = 60  # octets of a minimum frame, without FCS

QUEUES = 16
"""Queues of a device that are counted: the file of counts has frames served, then frames missed."""

Bytes = npt.NDArray[np.uint8]
Words = npt.NDArray[np.uint32]


@dataclass(frozen=True)
class Pace:
    """When a source's frames are due.

    Attributes:
        pps: frames per second; None for a full burst at every poll.
        burst: frames that are due at one time.
        poisson: exponential gaps between these times, instead of even ones.
        spin: TSC cycles that each frame costs its poller besides (a fault, to test a bench with).
    """

    pps: float | None = None
    burst: int = 1
    poisson: bool = False
    spin: int = 0


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


def be16(values: npt.NDArray[np.integer]) -> Bytes:
    """Each value as two octets, network order: shape (n, 2)."""
    octets: Bytes = values.astype(">u2").view(np.uint8).reshape(-1, 2)
    return octets


def _internet_checksums(octets: Bytes) -> npt.NDArray[np.integer]:
    """RFC 1071 over the even number of octets of each row."""
    total = np.ascontiguousarray(octets).view(">u2").astype(np.uint64).sum(axis=1)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    sums: npt.NDArray[np.integer] = ~total & 0xFFFF
    return sums


def ipv4_checksums(headers: Bytes) -> Bytes:
    """The header checksums of 20-octet headers whose checksum field is zero."""
    return be16(_internet_checksums(headers))


def udp_checksums(frames: Bytes) -> Bytes:
    """The UDP checksums of Ethernet/IPv4/UDP frames of even length whose checksum field is zero."""
    count = len(frames)
    protocol_and_length = np.concatenate(
        [np.zeros((count, 1), np.uint8), frames[:, 23:24], frames[:, 38:40]], axis=1
    )
    sums = _internet_checksums(
        np.concatenate([frames[:, 26:34], protocol_and_length, frames[:, 34:]], axis=1)
    )
    return be16(np.where(sums == 0, 0xFFFF, sums))


def _ethernet(
    count: int, length: int, eth_dst: Bytes | bytes, eth_src: Bytes | bytes, ethertype: int
) -> Bytes:
    """Frames with an Ethernet header followed by zeros."""
    frames = np.zeros((count, length), dtype=np.uint8)
    for octets, address in ((slice(0, 6), eth_dst), (slice(6, 12), eth_src)):
        rows = np.frombuffer(address, np.uint8) if isinstance(address, bytes) else address
        frames[:, octets] = rows
    frames[:, 12:14] = list(ethertype.to_bytes(2, "big"))
    return frames


def udp_frames(
    *,
    eth_dst: Bytes | bytes,
    eth_src: Bytes | bytes,
    ipv4_src: Words,
    ipv4_dst: Words,
    udp_src: int = 1024,
    udp_dst: int = 2048,
    length: int = MINIMUM,
    protocol: int = 17,
) -> Bytes:
    """Ethernet/IPv4/UDP frames, one row each; `length` octets without FCS (60 is "64 bytes").

    MAC addresses are one for all or one row per frame; IPv4's are host-order numbers. With another
    IPv4 `protocol`, the caller fills in what follows the IPv4 header.
    """
    count = len(ipv4_dst)
    frames = _ethernet(count, length, eth_dst, eth_src, 0x0800)
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


def ipv6_frames(
    *,
    eth_dst: Bytes | bytes,
    eth_src: Bytes | bytes,
    ipv6_src: Bytes,
    ipv6_dst: Bytes,
    udp_src: int = 1024,
    udp_dst: int = 2048,
    length: int = ETHERNET_IPV6_UDP,
    next_header: int = 17,
) -> Bytes:
    """Ethernet/IPv6/UDP frames of at least 62 octets, one row each.

    IPv6 addresses are rows of 16 octets. With another `next_header`, the caller fills in what
    follows the IPv6 header. The UDP checksum is arbitrary: switches don't check it.
    """
    count = len(ipv6_dst)
    frames = _ethernet(count, length, eth_dst, eth_src, 0x86DD)
    header = struct.pack("!IHBB", 6 << 28, length - 54, next_header, 64)
    frames[:, 14:22] = np.frombuffer(header, np.uint8)
    frames[:, 22:38] = ipv6_src
    frames[:, 38:54] = ipv6_dst
    udp = struct.pack("!HHHH", udp_src, udp_dst, length - 54, 0xFFFF)
    frames[:, 54:62] = np.frombuffer(udp, np.uint8)
    return frames


def vlan_tagged(untagged: Bytes, vids: Words) -> Bytes:
    """The frames with an 802.1Q tag after the MAC addresses: 4 octets longer."""
    tags = np.concatenate(
        [np.tile(np.array([0x81, 0x00], np.uint8), (len(vids), 1)), be16(vids)], axis=1
    )
    return np.concatenate([untagged[:, :12], tags, untagged[:, 12:]], axis=1)


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
    """`inner` frames with Ethernet/IPv4/UDP/VXLAN headers (RFC 7348), one row each."""
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


def write(
    path: Path,
    frames: Bytes,
    lengths: npt.NDArray[np.uint16] | None = None,
    pace: Pace = Pace(),
) -> None:
    """Writes or atomically replaces a frames file; a device that uses it switches to the new one.

    With `lengths`, only that many octets of each frame are used.
    """
    count, length = frames.shape
    stride = -(-length // 64) * 64
    slots = np.zeros((count, stride), dtype=np.uint8)
    slots[:, :length] = frames
    header = MAGIC + struct.pack("<IIII", count, length, stride, lengths is not None)
    header += struct.pack("<dIII", pace.pps or 0.0, pace.burst, pace.poisson, pace.spin)
    tail = b"" if lengths is None else lengths.astype("=u2").tobytes()
    new = path.with_suffix(".new")
    new.write_bytes(header.ljust(64, b"\0") + slots.tobytes() + tail)
    new.rename(path)


def serve(path: Path, prepared: Path) -> None:
    """Atomically replaces a frames file by one that write() has prepared in the same folder."""
    new = path.with_suffix(".new")
    new.hardlink_to(prepared)
    new.rename(path)
    # Renaming does nothing if both names refer to one file: then it is in use already.
    new.unlink(missing_ok=True)


def close(path: Path) -> None:
    """Closes the source of a frames file: its device generates no frames until write()."""
    write(path, np.zeros((0, MINIMUM), dtype=np.uint8))


def served(flow_dir: Path, device: str, pid: int) -> int:
    """Frames that a device of a process has generated so far."""
    return int(_counts(flow_dir, device, pid)[:QUEUES].sum())


def missed(flow_dir: Path, device: str, pid: int) -> int:
    """Frames that a device of a process has given up so far: they waited longer than 10 ms."""
    return int(_counts(flow_dir, device, pid)[QUEUES:].sum())


def _counts(flow_dir: Path, device: str, pid: int) -> npt.NDArray[np.uint64]:
    return np.fromfile(flow_dir / f"{device}.{pid}.served", dtype=np.uint64)
