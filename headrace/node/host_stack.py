# SPDX-License-Identifier: Apache-2.0
"""Interfaces of graphs in the host's own IP stack: their addresses, given or by DHCP.

An interface is the far end of a port of the graph's LSI. It gets addresses and their connected
routes and nothing else: no default route, no name servers, and no address outside of the networks
that node.yaml allows, whatever a DHCP server says, since that may be a VNF of a client.

The DHCP client is pyroute2's, in this process: a lease is renewed as long as the node runs, and
asked for again when it has been restarted; the address stays meanwhile.
"""

import asyncio
import contextlib
import ipaddress
import logging
from dataclasses import dataclass, field
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.dhcp.client import AsyncDHCPClient, ClientConfig
from pyroute2.dhcp.hooks import Trigger, hook
from pyroute2.dhcp.leases import Lease, MissingOptionError
from pyroute2.netlink.exceptions import NetlinkError

from headrace.node.planning.resources import HostInterfaceResource
from headrace.switches.base import SwitchError

log = logging.getLogger("headrace.node")

_RETRY_S = 2.0
_NODAD = 0x02  # IFA_F_NODAD: usable at once, the graph's rules may not carry the probes


class _LeaseInMemory(Lease):  # type: ignore[misc]  # pyroute2 has no types
    """A lease that is asked for anew by each process."""

    def dump(self) -> None:
        """Nothing is written."""

    @classmethod
    def load(cls, interface: str) -> None:
        """There is none."""


@dataclass
class _Interface:
    """What is known of an interface; `client` gets leases for it as long as it lives."""

    name: str
    addresses: list[str]
    client: asyncio.Task[None] | None = None
    release: asyncio.Event = field(default_factory=asyncio.Event)


class HostStack:
    """The interfaces of all graphs of a node; all methods belong to one event loop."""

    def __init__(self) -> None:
        self._interfaces: dict[str, _Interface] = {}

    async def ensure(self, wanted: HostInterfaceResource, name: str) -> None:
        """Gives interface `name` what is wanted; a DHCP client goes on for itself.

        Raises:
            SwitchError: the kernel refuses an address.
        """
        await self._forget(wanted.key, release=False)
        try:
            await asyncio.to_thread(_configure, name, wanted)
        except (OSError, NetlinkError) as error:
            raise SwitchError(f"end-point {wanted.end_point}: {name}: {error}") from error
        found = _Interface(name, list(wanted.addresses))
        self._interfaces[wanted.key] = found
        if wanted.dhcp:
            found.client = asyncio.create_task(self._lease(found, wanted))

    async def remove(self, wanted: HostInterfaceResource) -> None:
        """Ends what goes on for the interface and gives its lease back; it goes with its port."""
        await self._forget(wanted.key, release=True)

    async def close(self) -> None:
        """Lets go of all interfaces, which keep what they have."""
        for key in list(self._interfaces):
            await self._forget(key, release=False)

    def is_there(self, wanted: HostInterfaceResource) -> bool:
        """Whether this process takes care of the interface and the interface exists."""
        found = self._interfaces.get(wanted.key)
        if found is None or not (Path("/sys/class/net") / found.name).exists():
            return False
        return not wanted.dhcp or (found.client is not None and not found.client.done())

    def addresses(self, wanted: HostInterfaceResource) -> list[str]:
        """The addresses that the interface was given."""
        found = self._interfaces.get(wanted.key)
        return list(found.addresses) if found else []

    async def _forget(self, key: str, release: bool) -> None:
        found = self._interfaces.pop(key, None)
        if found is None or found.client is None:
            return
        if release:
            found.release.set()
            await asyncio.wait([found.client], timeout=_RETRY_S)
        found.client.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await found.client

    async def _lease(self, found: _Interface, wanted: HostInterfaceResource) -> None:
        """Asks for leases until `release` is set; whatever a server sends, it goes on."""
        while not found.release.is_set():
            try:
                await self._one_client(found, wanted)
            except Exception as error:  # a server may send anything
                log.error("DHCP on %s: %s: %s", found.name, type(error).__name__, error)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(found.release.wait(), _RETRY_S)

    async def _one_client(self, found: _Interface, wanted: HostInterfaceResource) -> None:
        @hook(Trigger.BOUND, Trigger.RENEWED, Trigger.REBOUND)  # type: ignore[untyped-decorator]
        async def bound(lease: Lease) -> None:
            address = _allowed(lease, wanted)
            if address is not None:
                await asyncio.to_thread(_set_addresses, found.name, [address])
                found.addresses = [address]

        @hook(Trigger.UNBOUND, Trigger.EXPIRED)  # type: ignore[untyped-decorator]
        async def unbound(lease: Lease) -> None:
            await asyncio.to_thread(_set_addresses, found.name, [])
            found.addresses = []

        client = AsyncDHCPClient(
            ClientConfig(
                interface=found.name,
                lease_type=_LeaseInMemory,
                hooks=[bound, unbound],
                handle_signals=False,
                release=False,
                vendor_id=None,
                host_name=None,
            )
        )
        async with client:
            await client.bootstrap()
            # pyroute2 does not say when one of its two tasks has failed.
            works = {client._receiver_task, client._sender_task}
            released = asyncio.create_task(found.release.wait())
            await asyncio.wait({*works, released}, return_when=asyncio.FIRST_COMPLETED)
            released.cancel()
            client.config.release = found.release.is_set()


def _allowed(lease: Lease, wanted: HostInterfaceResource) -> str | None:
    """The address of a lease, if it may be had."""
    try:
        address = ipaddress.IPv4Interface(f"{lease.ip}/{lease.subnet_mask}")
    except (MissingOptionError, ValueError) as error:
        log.error("end-point %s: a DHCP lease without an address: %s", wanted.end_point, error)
        return None
    networks = [ipaddress.ip_network(text) for text in wanted.networks]
    if any(
        isinstance(network, ipaddress.IPv4Network) and address.network.subnet_of(network)
        for network in networks
    ):
        return str(address)
    log.error(
        "end-point %s: DHCP gives %s, which is not in host_stack.networks of node.yaml",
        wanted.end_point,
        address,
    )
    return None


def _configure(name: str, wanted: HostInterfaceResource) -> None:
    if any(":" in address for address in wanted.addresses):
        # Its own address alone: none of the link, and none that a router announces.
        settings = Path("/proc/sys/net/ipv6/conf") / name
        for setting, value in (("accept_ra", "0"), ("addr_gen_mode", "1"), ("disable_ipv6", "0")):
            (settings / setting).write_text(value)
    with IPRoute() as kernel:
        (index,) = kernel.link_lookup(ifname=name) or (None,)
        if index is None:
            raise OSError("the interface is gone")
        if wanted.mac:
            kernel.link("set", index=index, address=wanted.mac)
        kernel.link("set", index=index, state="up")
    if not wanted.dhcp:
        _set_addresses(name, list(wanted.addresses))


def _set_addresses(name: str, addresses: list[str]) -> None:
    """Makes these the addresses of an interface; others go."""
    wanted = [ipaddress.ip_interface(text) for text in addresses]
    with IPRoute() as kernel:
        (index,) = kernel.link_lookup(ifname=name)
        for address in wanted:
            more = {"flags": _NODAD} if address.version == 6 else {}
            kernel.addr(
                "replace",
                index=index,
                address=str(address.ip),
                prefixlen=address.network.prefixlen,
                **more,
            )
        for entry in kernel.get_addr(index=index):
            held = ipaddress.ip_interface(f"{entry.get_attr('IFA_ADDRESS')}/{entry['prefixlen']}")
            if held not in wanted:
                kernel.addr(
                    "del", index=index, address=str(held.ip), prefixlen=held.network.prefixlen
                )
