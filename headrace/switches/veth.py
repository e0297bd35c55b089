# SPDX-License-Identifier: Apache-2.0
"""veth pairs: what joins a switch to functions of the kernel.

The near end of a port's pair is the switch's, the far end is its peer's; an engine moves it into
the network namespace of a VNF, with which the whole pair goes. The calls are netlink's and block:
callers are in threads.
"""

import array
import base64
import errno
import fcntl
import socket
import struct
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from pyroute2 import IPRoute, netns
from pyroute2.netlink.exceptions import NetlinkError

from headrace.machine.names import digest_of
from headrace.machine.patience import patient

NEAR_END, FAR_END, BRIDGE_END, TAP_END = "n", "x", "b", "t"

LINK_PATIENCE_S = 10.0
"""How long the link of a pair may take to come up; the kernel's work queue does that."""

_IFNAME_MAX = 15
_POLL_S = 0.002
_SIOCETHTOOL = 0x8946
_SET_TX_CHECKSUM, _SET_TSO, _SET_GSO = 0x17, 0x1F, 0x24  # linux/ethtool.h
T = TypeVar("T")


def device_name(prefix: str, end: str, *names: str) -> str:
    """The kernel's name, of at most 15 characters, for the device of these names.

    `end` is one letter that tells the devices of a port apart. It comes first, so that no name can
    contain it; `+` and `~` occur in no port's name. What is too long is a digest, marked by `~`.
    """
    plain = f"{prefix}{end}{'+'.join(names)}"
    if len(plain) <= _IFNAME_MAX:
        return plain
    room = _IFNAME_MAX - len(prefix) - len(end) - 1
    octets = bytes.fromhex(digest_of(*names))
    return f"{prefix}{end}~{base64.b32encode(octets).decode().lower()[:room]}"


def make_pair(
    near: str, far: str, namespace: str | None = None, *, whole_frames: bool = False
) -> None:
    """Makes a pair that is up, without IPv6; one that is there already is kept.

    `namespace` is the path of the network namespace of the near end, if it is another than ours.
    With `whole_frames` what arrives at the far end is what a wire would carry: checksums are filled
    in, and no frame is longer than the MTU. Else the kernel leaves both to whoever receives.

    Raises:
        FileExistsError: `far` is another interface's name.
        NetlinkError, OSError: the kernel refuses.
    """
    if near not in device_names(namespace):
        with IPRoute() as kernel:
            if kernel.link_lookup(ifname=far):
                raise FileExistsError(f"interface {far} already exists")
            kernel.link("add", ifname=near, kind="veth", peer={"ifname": far})
            silence(far)
            kernel.link("set", ifname=far, state="up")
            if namespace is not None:
                kernel.link("set", ifname=near, net_ns_fd=namespace)
    inside(namespace, lambda: _bring_up(near, whole_frames))


def _bring_up(device: str, whole_frames: bool) -> None:
    silence(device)
    if whole_frames:
        compute_checksums(device)
    with IPRoute() as kernel:
        kernel.link("set", ifname=device, state="up")


def wait_until_up(devices: Iterable[str], patience_s: float = LINK_PATIENCE_S) -> None:
    """Returns when the kernel sends through each of these interfaces of this namespace.

    An interface that is set up has no queue until the kernel's link watch has seen its carrier,
    some milliseconds later: what is sent before is dropped. Then its operational state is UP (RFC
    2863).

    Raises:
        TimeoutError: names those that are not up after `patience_s`, with their states.
        NetlinkError, OSError: the kernel refuses.
    """
    waiting = set(devices)
    patience_s = patient(patience_s)
    deadline = time.monotonic() + patience_s
    with IPRoute() as kernel:
        while True:
            states = {
                link.get_attr("IFLA_IFNAME"): link.get_attr("IFLA_OPERSTATE")
                for link in kernel.get_links()
            }
            waiting = {name for name in waiting if states.get(name) != "UP"}
            if not waiting:
                return
            if time.monotonic() > deadline:
                down = (f"{name} is {states.get(name, 'gone')}" for name in sorted(waiting))
                raise TimeoutError(f"no link after {patience_s:g} s: {', '.join(down)}")
            time.sleep(_POLL_S)


def inside(namespace: str | None, work: Callable[[], T]) -> T:
    """What `work` returns, done in a thread that has entered the network namespace for good."""
    if namespace is None:
        return work()

    def run() -> T:
        netns.setns(namespace)
        return work()

    with ThreadPoolExecutor(max_workers=1) as thread:
        return thread.submit(run).result()


def compute_checksums(device: str) -> None:
    """Makes the kernel compute the checksums of what it sends, and cut its segments.

    An interface that has gone to a namespace since is left alone.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        for command in (_SET_TX_CHECKSUM, _SET_TSO, _SET_GSO):
            value = array.array("I", (command, 0))
            request = struct.pack("16sP", device.encode(), value.buffer_info()[0])
            try:
                fcntl.ioctl(control, _SIOCETHTOOL, request)
            except OSError as error:
                if error.errno == errno.ENODEV:
                    return
                if error.errno != errno.EOPNOTSUPP:  # without the offload there is nothing to do
                    raise


def silence(device: str) -> None:
    """Keeps the kernel from sending IPv6 packets on the device."""
    setting = Path("/proc/sys/net/ipv6/conf") / device / "disable_ipv6"
    if setting.exists():
        setting.write_text("1")


def answer_no_arp(device: str) -> None:
    """Keeps the kernel from answering, on the device, for the addresses of other interfaces."""
    (Path("/proc/sys/net/ipv4/conf") / device / "arp_ignore").write_text("8")


def device_names(namespace: str | None = None) -> set[str]:
    """All interfaces of a network namespace, this one if none is named."""
    return inside(namespace, lambda: {name for _, name in socket.if_nameindex()})


def remove_device(name: str) -> None:
    """Removes an interface, if it is there; of a pair both ends go."""
    with IPRoute() as kernel:
        for index in kernel.link_lookup(ifname=name):
            try:
                kernel.link("del", index=index)
            except NetlinkError as error:
                # The kernel removes a namespace, and what is in it, when it gets to that.
                if error.code != errno.ENODEV:
                    raise


def remove_devices(prefix: str) -> None:
    """Removes all interfaces whose names begin so."""
    for name in sorted(device_names()):
        if name.startswith(prefix):
            remove_device(name)
