# SPDX-License-Identifier: Apache-2.0
"""A DPDK program's ports on veth pairs: packet sockets in a network namespace of the VNF's own.

Where a switch has no port that a DPDK program can meet (the kernel's bridge), the far ends of the
ports' pairs are moved into the VNF's namespace, where the program opens them by DPDK's
`net_af_packet`. That driver wants CAP_NET_RAW, and CAP_NET_ADMIN to bring an interface up. The VNF
has both in a user namespace of its own, to which the network namespace belongs, so they are valid
for its own interfaces and for nothing else.

The namespaces go with the VNF. Before that the ends are moved back out, so that the pairs, and the
rules on their ports, stay.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from headrace.engines.base import EngineError, VnfSpec
from headrace.engines.interfaces import InterfaceSettings, move_in
from headrace.machine.processes import ProcessId
from headrace.switches.base import PortKind
from headrace.switches.veth import FAR_END, device_name, inside

CAPABILITIES = ("CAP_NET_ADMIN", "CAP_NET_RAW")

_FRAMES = 1024
_FRAME_BYTES = 2048
_BLOCK_BYTES = 4096
_LOCKED_MB = 2 * _FRAMES * _FRAME_BYTES >> 20
"""What the kernel locks in memory of the rings of one port, to receive and to send."""

_PATIENCE_S = 10.0


def has_interfaces(vnf: VnfSpec) -> bool:
    """Whether ports of the VNF are interfaces of the kernel."""
    return any(port.switch_port.kind is PortKind.VETH for port in vnf.ports)


def locked_mb(vnf: VnfSpec) -> int:
    """How much memory the VNF may lock, for the rings of its packet sockets."""
    return _LOCKED_MB * len(vnf.ports) if has_interfaces(vnf) else 0


def interface_devargs(number: int) -> str:
    """DPDK's device for the port `number` of a VNF, within its namespace.

    A frame fits into 2048 octets, the kernel's header of it included. `qdisc_bypass`: what is sent
    is not queued once more.
    """
    return (
        f"net_af_packet{number},iface=eth{number},qdisc_bypass=1,"
        f"blocksz={_BLOCK_BYTES},framesz={_FRAME_BYTES},framecnt={_FRAMES}"
    )


async def give(vnf: VnfSpec, process: ProcessId, prefix: str) -> None:
    """Gives a starting process (headrace-confine, `--waits-at`) its user's id and its interfaces.

    Raises:
        EngineError: it has ended, or the kernel refuses.
    """
    place = Path("/proc") / str(process.pid)
    own = os.readlink("/proc/self/ns/user")
    deadline = asyncio.get_running_loop().time() + _PATIENCE_S
    try:
        while await asyncio.to_thread(os.readlink, place / "ns/user") == own:
            if asyncio.get_running_loop().time() > deadline:
                raise EngineError(f"VNF {vnf.vnf}: no namespaces after {_PATIENCE_S:g} s")
            await asyncio.sleep(0.005)
        for file in ("uid_map", "gid_map"):
            await asyncio.to_thread((place / file).write_text, f"{vnf.user} {vnf.user} 1\n")
    except OSError as error:
        raise EngineError(f"VNF {vnf.vnf}: it ended while starting: {error}") from error
    await asyncio.to_thread(move_in, vnf, str(place / "ns/net"), prefix, InterfaceSettings())


@asynccontextmanager
async def giving_back(vnf: VnfSpec, process: ProcessId | None, prefix: str) -> AsyncIterator[None]:
    """Within it a VNF ends; its namespace, which goes with it, stays until the ends are out.

    Raises:
        EngineError: the kernel refuses.
    """
    held: int | None = None
    if process is not None and has_interfaces(vnf):
        with contextlib.suppress(OSError):  # it has ended by itself, and the pairs with it
            held = os.open(f"/proc/{process.pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
        if held is not None:
            await asyncio.to_thread(_give_back, vnf, Path(f"/proc/self/fd/{held}"), prefix)
    finally:
        if held is not None:
            os.close(held)


def _give_back(vnf: VnfSpec, namespace: Path, prefix: str) -> None:
    """Moves the far ends of the VNF's pairs back out of the namespace, under their first names."""
    outside = f"/proc/{os.getpid()}/ns/net"

    def work() -> None:
        with IPRoute() as kernel:
            for number, port in enumerate(vnf.ports):
                for index in kernel.link_lookup(ifname=f"eth{number}"):
                    peer = device_name(prefix, FAR_END, port.switch_port.name)
                    kernel.link("set", index=index, state="down")
                    kernel.link("set", index=index, ifname=peer)
                    kernel.link("set", index=index, net_ns_fd=outside)

    try:
        inside(str(namespace), work)
    except (NetlinkError, OSError) as error:
        raise EngineError(f"VNF {vnf.vnf}: its interfaces: {error}") from error
