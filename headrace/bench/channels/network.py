# SPDX-License-Identifier: Apache-2.0
"""What some kinds need of the kernel, in network namespaces that end with the ends' processes."""

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
    # Without addresses of its own the kernel has nothing to say on it.
    await _inside(pid, "ip", "link", "set", "dev", interface, "addrgenmode", "none", "up")


async def before_open(network: Network, ends: Forked) -> None:
    """Makes what must be there when the devices are opened."""
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
    """Joins what the devices have made."""
    if network is Network.BRIDGE:
        pid = ends.producer
        await _inside(pid, "ip", "link", "add", "hrchanbr", "type", "bridge", "mcast_snooping", "0")
        for interface in INTERFACES:
            await _inside(pid, "ip", "link", "set", "dev", interface, "master", "hrchanbr")
            await _up(pid, interface)
        await _up(pid, "hrchanbr")


def arguments(network: Network) -> tuple[str, ...]:
    """How headrace-channel is told in which network namespaces its ends live."""
    if network is Network.VETH:
        return ("--networks", "apart")
    return ("--networks", "together") if network is Network.BRIDGE else ()
