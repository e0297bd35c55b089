# SPDX-License-Identifier: Apache-2.0
"""A bridge of the kernel with two members, which floods and does not learn: a wire between them.

It joins what cannot be joined otherwise: a tap, whose other end is a virtual machine's file, and
one end of a veth pair, which a switch takes that does not open taps.
"""

import errno
from collections.abc import Sequence

from pyroute2 import IPRoute

from headrace.switches.base import PortSpec
from headrace.switches.tap import make_tap
from headrace.switches.veth import (
    BRIDGE_END,
    TAP_END,
    answer_no_arp,
    device_name,
    remove_device,
    silence,
)


def join(kernel: IPRoute, bridge: str, members: Sequence[str]) -> None:
    """Makes the bridge with these members, which are up; what is there already is kept.

    Raises:
        OSError: a member is not there.
        NetlinkError: the kernel refuses.
    """
    if not kernel.link_lookup(ifname=bridge):
        kernel.link("add", ifname=bridge, kind="bridge", br_mcast_snooping=0)
        silence(bridge)
        answer_no_arp(bridge)
    index = kernel.link_lookup(ifname=bridge)[0]
    for member in members:
        found = kernel.link_lookup(ifname=member)
        if not found:
            raise OSError(errno.ENODEV, f"this machine has no interface {member}")
        silence(member)
        kernel.link("set", index=found[0], master=index, state="up")
        kernel.brport("set", index=found[0], learning=0)
    kernel.link("set", index=index, state="up")


def tap_of(prefix: str, port: PortSpec) -> str:
    """The tap of a port of kind `tap`, which a virtual machine opens."""
    return port.options.get("iface") or device_name(prefix, TAP_END, port.name)


def join_tap(prefix: str, port: PortSpec, interface: str) -> None:
    """Makes the port's tap, joined with an interface of this machine.

    Raises:
        OSError, NetlinkError: the kernel refuses, or the interface is not there.
    """
    tap = tap_of(prefix, port)
    make_tap(tap)
    with IPRoute() as kernel:
        join(kernel, device_name(prefix, BRIDGE_END, port.name), (tap, interface))


def part_tap(prefix: str, port: PortSpec) -> None:
    """Removes the port's tap and its bridge; the interface stays."""
    remove_device(device_name(prefix, BRIDGE_END, port.name))
    remove_device(tap_of(prefix, port))


def parted(prefix: str, names: set[str], devices: set[str]) -> set[str]:
    """Those of the ports whose tap or bridge is not there, although the other one is."""
    return {
        name
        for name in names
        if (device_name(prefix, TAP_END, name) in devices)
        != (device_name(prefix, BRIDGE_END, name) in devices)
    }
