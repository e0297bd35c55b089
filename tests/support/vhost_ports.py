# SPDX-License-Identifier: Apache-2.0
"""Vhost-user ports of a switch with guests of tests/support/vhost_guest.py at them."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.support.frames import udp_frame
from tests.support.switch import Switch, unique_bridge
from tests.support.vhost_guest import Guest

WAIT_S = 20.0


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Waits for something that the switch does by itself; `what` is the message if it does not."""
    deadline = time.monotonic() + WAIT_S
    while not holds():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def add_guest_ports(switch: Switch, *names: str, columns: tuple[str, ...] = ()) -> str:
    """A bridge where what comes in at one port leaves by the next one; its name."""
    bridge = unique_bridge()
    switch.vsctl("add-br", bridge, "--", "set-fail-mode", bridge, "secure")
    for number, name in enumerate(names, start=1):
        switch.vsctl(
            *("add-port", bridge, name, "--", "set", "Interface", name, "type=dpdkvhostuser"),
            *(f"ofport_request={number}", *columns),
        )
        follower = number % len(names) + 1
        switch.ofctl("add-flow", bridge, f"in_port={number},actions=output:{follower}")
    return bridge


def wait_for_link(switch: Switch, *names: str, up: bool = True) -> None:
    """Waits until the links of all ports are up, or down."""
    wait_until(
        lambda: all(switch.port(name)["link_up"] is up for name in names),
        f"links {names} are not {'up' if up else 'down'}",
    )


def numbered(number: int) -> bytes:
    """A frame that is like no other."""
    return udp_frame(payload=number.to_bytes(4, "big"))


def collect(to: Guest, count: int) -> dict[int, list[bytes]]:
    """Frames by pair, until there are `count` or nothing has come for a second."""
    frames: dict[int, list[bytes]] = {pair: [] for pair in range(to.pairs)}
    deadline = time.monotonic() + 1
    while sum(map(len, frames.values())) < count and time.monotonic() < deadline:
        for pair, so_far in frames.items():
            if more := to.received(pair):
                so_far += more
                deadline = time.monotonic() + 1
    return frames
