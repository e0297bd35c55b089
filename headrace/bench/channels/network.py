# SPDX-License-Identifier: Apache-2.0
"""Kernel interfaces of some kinds, in network namespaces that end with the ends' processes."""

import asyncio

from headrace.bench.channels.kinds import Network
from headrace.bench.channels.program import ChannelError, Forked

INTERFACES = ("hrchan0", "hrchan1")


async def _inside(pid: int, *words: str) -> None:
    """Runs a tool in the network namespace of a process."""
    process = await asyncio.create_subprocess_exec(
        *("nsenter", "--target", str(pid), "--net", "--", *words),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    _, told = await process.communicate()
    if process.returncode != 0:
        raise ChannelError(f"{' '.join(words)}: {told.decode(errors='replace').strip()}")


async def _up(pid: int, interface: str) -> None:
    # Without an IPv6 address the kernel sends nothing on the interface.
    await _inside(pid, "ip", "link", "set", "dev", interface, "addrgenmode", "none", "up")


async def before_open(network: Network, ends: Forked) -> None:
    """Creates interfaces that must exist when the devices are opened."""
    if network is Network.VETH:
        near, far = INTERFACES
        await _inside(
            ends.producer,
            *("ip", "link", "add", near, "type", "veth"),
            *("peer", "name", far, "netns", str(ends.consumer)),
        )
        await _up(ends.producer, near)
        await _up(ends.consumer, far)


async def after_open(network: Network, ends: Forked) -> None:
    """Connects the interfaces that the devices have created."""
    if network is Network.BRIDGE:
        pid = ends.producer
        await _inside(pid, "ip", "link", "add", "hrchanbr", "type", "bridge", "mcast_snooping", "0")
        for interface in INTERFACES:
            await _inside(pid, "ip", "link", "set", "dev", interface, "master", "hrchanbr")
            await _up(pid, interface)
        await _up(pid, "hrchanbr")


def arguments(network: Network) -> tuple[str, ...]:
    """headrace-channel's arguments that select the network namespaces of its ends."""
    if network is Network.VETH:
        return ("--networks", "apart")
    return ("--networks", "together") if network is Network.BRIDGE else ()
