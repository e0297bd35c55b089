# SPDX-License-Identifier: Apache-2.0
"""Several switches of one node as one: each LSI is on one of them, and its name says on which.

    LSI-0, physical ports, internal groups        first switch
    the LSI of a graph that names a switch        that switch: its name ends in the switch's letter

A link between LSIs of one switch is a pair of patch ports. Between switches it is a veth pair: one
of them makes it, the other one takes its far end as an interface that exists.
"""

import asyncio
import re
import time
from collections.abc import Collection, Mapping, Sequence

from headrace.switches.base import (
    Attach,
    LinkSpec,
    PortKind,
    PortSpec,
    PortStatistics,
    QueueSpec,
    RuleStatistics,
    SwitchCycles,
    SwitchDriver,
    SwitchError,
)
from headrace.switches.rules import Rule

_LSI = re.compile(r".*-i?\d+([a-z])?(f\d+)?")


class SeveralSwitches:
    """A first switch and others by their letters; see SwitchDriver."""

    def __init__(self, first: SwitchDriver, others: Mapping[str, SwitchDriver]) -> None:
        self._first, self.others = first, dict(others)
        self._all = [first, *self.others.values()]
        self.name, self.capabilities = first.name, first.capabilities

    def _of(self, lsi: str) -> SwitchDriver:
        found = _LSI.fullmatch(lsi)
        letter = found[1] if found else None
        if letter is None:
            return self._first
        if letter not in self.others:
            raise SwitchError(f"LSI {lsi} is on a switch that this node does not have any more")
        return self.others[letter]

    async def start(self) -> bool:
        """See SwitchDriver: adopted if all of them are."""
        return all([await driver.start() for driver in self._all])

    async def stop(self) -> None:
        """See SwitchDriver: all of them, whatever one says."""
        failed = []
        for driver in reversed(self._all):
            try:
                await driver.stop()
            except SwitchError as error:
                failed.append(str(error))
        if failed:
            raise SwitchError("; ".join(failed))

    async def close(self) -> None:
        """Closes the connections of all."""
        for driver in self._all:
            close = getattr(driver, "close", None)
            if close is not None:
                await close()

    async def create_lsi(self, lsi: str) -> None:
        """See SwitchDriver."""
        await self._of(lsi).create_lsi(lsi)

    async def delete_lsi(self, lsi: str) -> None:
        """See SwitchDriver."""
        await self._of(lsi).delete_lsi(lsi)

    async def add_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        await self._of(lsi).add_port(lsi, port)

    async def remove_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        await self._of(lsi).remove_port(lsi, port)

    async def connect_lsis(self, link: LinkSpec) -> None:
        """See SwitchDriver: patch ports, or a veth pair between two switches."""
        first, second = self._of(link.first), self._of(link.second)
        if first is second:
            await first.connect_lsis(link)
            return
        near, far = _joint(link)
        await first.add_port(link.first, near)
        await second.add_port(link.second, far)
        await first.wait_for_links([near])

    async def disconnect_lsis(self, link: LinkSpec) -> None:
        """See SwitchDriver."""
        first, second = self._of(link.first), self._of(link.second)
        if first is second:
            await first.disconnect_lsis(link)
            return
        near, far = _joint(link)
        await second.remove_port(link.second, far)
        await first.remove_port(link.first, near)

    async def install_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver."""
        await self._of(lsi).install_rules(lsi, rules)

    async def remove_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver."""
        await self._of(lsi).remove_rules(lsi, rules)

    async def replace_flows(self, lsi: str, flows: Sequence[str]) -> None:
        """See SwitchDriver."""
        await self._of(lsi).replace_flows(lsi, flows)

    async def set_controller(self, lsi: str, address: str | None) -> None:
        """See SwitchDriver."""
        await self._of(lsi).set_controller(lsi, address)

    async def add_queue(self, lsi: str, queue: QueueSpec) -> None:
        """See SwitchDriver."""
        await self._of(lsi).add_queue(lsi, queue)

    async def remove_queue(self, lsi: str, queue: QueueSpec) -> None:
        """See SwitchDriver."""
        await self._of(lsi).remove_queue(lsi, queue)

    async def port_statistics(self, lsi: str | None = None) -> list[PortStatistics]:
        """See SwitchDriver."""
        if lsi is not None:
            return await self._of(lsi).port_statistics(lsi)
        rows = await asyncio.gather(*(driver.port_statistics() for driver in self._all))
        return [row for some in rows for row in some]

    async def rule_statistics(self, lsi: str) -> list[RuleStatistics]:
        """See SwitchDriver."""
        return await self._of(lsi).rule_statistics(lsi)

    async def cycles(self) -> SwitchCycles:
        """See SwitchDriver: the workers of all; approximate if one's are."""
        found = [await driver.cycles() for driver in self._all]
        bounds = [one.resolution_cycles for one in found if one.resolution_cycles is not None]
        return SwitchCycles(
            switch=self.name,
            approximate=any(one.approximate for one in found),
            source="; ".join(f"{one.switch}: {one.source}" for one in found),
            tsc_hz=found[0].tsc_hz,
            at_ns=time.monotonic_ns(),
            workers=tuple(worker for one in found for worker in one.workers),
            resolution_cycles=sum(bounds) if bounds else None,
        )

    async def version(self) -> str:
        """See SwitchDriver."""
        return "; ".join([await driver.version() for driver in self._all])

    def attach(self, port: PortSpec) -> Attach:
        """See SwitchDriver: all name the ends of a kind in the same way."""
        able = (driver for driver in self._all if port.kind in driver.capabilities.offered)
        return next(able, self._first).attach(port)

    async def wait_for_links(self, ports: Sequence[PortSpec]) -> None:
        """See SwitchDriver."""
        for driver in self._all:
            unknown = await driver.missing({port.name for port in ports})
            own = [port for port in ports if port.name not in unknown]
            if own:
                await driver.wait_for_links(own)

    async def missing(self, ports: Collection[str]) -> set[str]:
        """See SwitchDriver: what none of them has in service."""
        left = set(ports)
        for driver in self._all:
            left &= await driver.missing(ports)
        return left

    async def links(self) -> dict[str, bool]:
        """See SwitchDriver."""
        found: dict[str, bool] = {}
        for driver in self._all:
            found.update(await driver.links())
        return found

    def processes(self) -> tuple[str, ...]:
        """See SwitchDriver."""
        return tuple(name for driver in self._all for name in driver.processes())

    def watched(self) -> tuple[str, ...]:
        """See SwitchDriver."""
        return tuple(name for driver in self._all for name in driver.watched())


def _joint(link: LinkSpec) -> tuple[PortSpec, PortSpec]:
    """The two ends of a link between switches: who makes the pair, and who takes its far end."""
    near = PortSpec(
        name=link.first_port,
        kind=PortKind.VETH,
        options={"peer": link.second_port, "frames": "whole"},
    )
    far = PortSpec(name=link.second_port, kind=PortKind.SYSTEM, options={"iface": link.second_port})
    return near, far
