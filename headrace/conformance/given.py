# SPDX-License-Identifier: Apache-2.0
"""A node that is there: by its address, in its dialect, with what is cabled to its ports."""

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from headrace.conformance.dialects import DIALECTS, dialect_of
from headrace.conformance.generator import Generator
from headrace.conformance.host import Host
from headrace.conformance.node import Node
from headrace.conformance.rest import NoAnswer, Rest
from headrace.conformance.target import Settings, Target, Unavailable
from headrace.conformance.upper_layer import UpperLayer
from headrace.conformance.wires import KernelFrames
from headrace.traffic import TrafficError

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class Address:
    """Where a node is, and what these tests are to it.

    Attributes:
        dialect: the generation of its API; empty: found out.
        wires: interfaces of this machine by the node's ports that they are cabled to.
        listen: (host, port) at which the node's descriptions are taken, as it was told.
        same_host: whether it runs on this machine; None: if its address is of the loopback.
        templates: ids of templates that pass packets, for engines that have none otherwise.
    """

    url: str
    token: str | None = None
    cacert: Path | None = None
    dialect: str = ""
    datastore: str | None = None
    wires: Mapping[str, str] = field(default_factory=dict)
    listen: tuple[str, int] | None = None
    same_host: bool | None = None
    templates: tuple[str, ...] = ()
    core: int = 0


class GivenBed:
    """One node for all tests; interfaces are a generator's for those that need one."""

    def __init__(self, address: Address, settings: Settings) -> None:
        self._address, self._settings = address, settings

    @property
    def is_one(self) -> bool:
        """See runner.Bed."""
        return False

    @asynccontextmanager
    async def target(self, loaded: bool) -> AsyncIterator[Target]:
        """See runner.Bed."""
        given = self._address
        async with AsyncExitStack() as stack:
            rest = Rest(given.url, given.token, given.cacert)
            try:
                dialect = DIALECTS[given.dialect] if given.dialect else await dialect_of(rest)
            except (NoAnswer, ValueError) as error:
                await rest.close()
                raise Unavailable(str(error)) from error
            repository = Rest(given.datastore) if given.datastore else None
            node = Node(rest, dialect, repository)
            stack.push_async_callback(node.close)
            upper = UpperLayer(rest, given.listen)
            await upper.open()
            stack.push_async_callback(upper.close)
            if dialect.own:
                upper.follow(rest)
            target = Target(node, upper, self._settings, given_templates=given.templates)
            local = (urlsplit(given.url).hostname or "") in _LOOPBACK
            if local if given.same_host is None else given.same_host:
                target.host = Host()
            if loaded:
                target.loads, target.no_loads = await self._generator(stack, node)
            elif given.wires:
                try:
                    frames = KernelFrames(given.wires)
                except OSError as error:
                    raise Unavailable(f"--wire: {error}") from error
                stack.callback(frames.close)
                target.frames = frames
            yield target

    async def _generator(self, stack: AsyncExitStack, node: Node) -> tuple[Generator | None, str]:
        """A generator at two ports; None with the reason if none can be attached."""
        devices = await _devices(node, self._address.wires)
        if len(devices) < 2:
            return None, ""
        generator = Generator(dict(list(devices.items())[:2]), self._address.core, shares=True)
        try:
            await generator.open()
        except TrafficError as error:
            return None, str(error)
        stack.push_async_callback(generator.close)
        return generator, ""


async def _devices(node: Node, wires: Mapping[str, str]) -> dict[str, str]:
    """DPDK devices for the generator: the cabled interfaces, else what the node says of ports."""
    if len(wires) >= 2:
        return {port: f"net_af_packet{{n}},iface={name}" for port, name in wires.items()}
    if not node.dialect.own:
        return {}
    found: dict[str, str] = {}
    for port in (await node.rest.get("/node/ports")).content or []:
        devargs = (port.get("attach") or {}).get("devargs")
        if devargs:
            found[port["name"]] = devargs
    return found
