# SPDX-License-Identifier: Apache-2.0
"""Taps: interfaces of the kernel whose other end is a file, for virtual machines.

A tap that persists is made before, and outlives, whoever has it open; its link is up while it is
open. Frames have virtio's header (struct virtio_net_hdr), by which checksums and segments are left
to the other side. Only root can open it: a machine inherits the open file.
"""

import fcntl
import os
import struct
from pathlib import Path

from pyroute2 import IPRoute

from headrace.switches.veth import silence

_DEVICE = "/dev/net/tun"
_TUNSETIFF, _TUNSETPERSIST = 0x400454CA, 0x400454CB  # linux/if_tun.h
_IFF_TAP, _IFF_NO_PI, _IFF_VNET_HDR = 0x0002, 0x1000, 0x4000


def make_tap(name: str) -> None:
    """Makes a tap that is set up; one that is there already is kept, whoever has it open.

    Raises:
        OSError: the kernel refuses.
    """
    if not (Path("/sys/class/net") / name / "tun_flags").exists():
        descriptor = open_tap(name)
        try:
            fcntl.ioctl(descriptor, _TUNSETPERSIST, 1)
        finally:
            os.close(descriptor)
    silence(name)
    with IPRoute() as kernel:
        kernel.link("set", ifname=name, state="up")


def open_tap(name: str) -> int:
    """Opens a tap, to be closed by the caller; makes it if it is not there.

    Raises:
        OSError: somebody has it open, the name is another interface's, or there are no taps here.
    """
    descriptor = os.open(_DEVICE, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        flags = _IFF_TAP | _IFF_NO_PI | _IFF_VNET_HDR
        fcntl.ioctl(descriptor, _TUNSETIFF, struct.pack("16sH22x", name.encode(), flags))
    except OSError as error:
        os.close(descriptor)
        raise OSError(error.errno, f"tap {name}: {os.strerror(error.errno or 0)}") from error
    return descriptor
