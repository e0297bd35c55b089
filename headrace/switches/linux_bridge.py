# SPDX-License-Identifier: Apache-2.0
"""Driver of the kernel's bridge, and of nftables for what a bridge cannot match.

Two ports whose rules send all from each to the other become a bridge of two members that floods and
does not learn: a wire. The rules of all other ports become nftables chains at the ingress of the
ports' devices, in the order of their priorities: what a rule matches is forwarded to another
device's egress, changed before where the rule says so, and what none matches is dropped.

Physical ports are veth pairs: one end is the switch's, the other is for the peer. A VNF's port is
a pair too; its engine moves the far end into a network namespace. A virtual machine's is a tap,
which its engine opens.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from headrace.machine.tsc import tsc_hz
from headrace.switches import nft
from headrace.switches.base import (
    COUNTERS,
    OPENFLOW_MASKS,
    Attach,
    Capabilities,
    PortKind,
    PortSpec,
    PortStatistics,
    RuleStatistics,
    SwitchCycles,
    SwitchError,
)
from headrace.switches.flat import FlatDriver, flatten
from headrace.switches.nft_rules import MATCHES, SETS, cookie_of, counter_of, expression
from headrace.switches.rules import Rule
from headrace.switches.softirq import softirq_of
from headrace.switches.tap import make_tap
from headrace.switches.veth import (
    BRIDGE_END,
    FAR_END,
    NEAR_END,
    device_name,
    device_names,
    make_pair,
    remove_device,
    remove_devices,
    wait_until_up,
)
from headrace.switches.wire_bridge import join


def pairs_of(rules: Sequence[Rule]) -> list[tuple[str, str]]:
    """The pairs of ports that are joined both ways by plain rules; each once, sorted."""
    counted: dict[str, int] = {}
    for rule in rules:
        counted[rule.in_port] = counted.get(rule.in_port, 0) + 1
    step = {
        rule.in_port: rule.outputs[0]
        for rule in rules
        if rule.is_plain() and counted[rule.in_port] == 1
    }
    return sorted((port, end) for port, end in step.items() if port < end and step.get(end) == port)


class LinuxBridgeDriver(FlatDriver):
    """Bridges of two ports each, and nftables."""

    name = "linux-bridge"
    capabilities = Capabilities(
        links=False,
        port_kinds=(PortKind.VETH, PortKind.SYSTEM),
        vnf_kinds=(PortKind.VETH, PortKind.TAP),
        end_points=("interface", "host-stack", "management"),
        matches=MATCHES,
        masks=OPENFLOW_MASKS,
        actions=("output", "copy", "set_field"),
        sets=SETS,
        counters=("port",),  # what passes a bridge is not counted by rule
        timeouts=False,
        polls=False,
    )

    async def start(self) -> bool:
        """See SwitchDriver. The kernel keeps forwarding; adopted if its devices exist."""
        if not self._load():
            return False
        present = await asyncio.to_thread(device_names)
        return all(self._device(port) in present for port in self._state.ports.values())

    async def stop(self) -> None:
        """See SwitchDriver: removes every device whose name begins with the node's prefix."""
        await nft.apply([{"add": self._table()}, {"delete": self._table()}])
        await asyncio.to_thread(remove_devices, self.settings.prefix)
        self._forget()

    def _table(self) -> dict[str, Any]:
        return {"table": {"family": "netdev", "name": self._table_name}}

    @property
    def _table_name(self) -> str:
        return self.settings.named(self.settings.prefix)

    # Ports.

    async def wait_for_links(self, ports: Sequence[PortSpec]) -> None:
        """See SwitchDriver: by the operational state of the near ends."""
        devices = [self._device(port) for port in ports]
        try:
            await asyncio.to_thread(wait_until_up, devices)
        except (NetlinkError, OSError) as error:
            raise SwitchError(f"linux-bridge: {error}") from error

    async def _gone(self, ports: Mapping[str, PortSpec]) -> set[str]:
        """Without a device, as when a namespace took its far end with it."""
        present = await asyncio.to_thread(device_names)
        return {name for name, port in ports.items() if self._device(port) not in present}

    async def links(self) -> dict[str, bool]:
        """See SwitchDriver: whether the kernel sees a carrier."""
        found = {}
        for name, port in self._state.ports.items():
            state = Path("/sys/class/net") / self._device(port) / "operstate"
            if state.exists():
                found[name] = state.read_text().strip() == "up"
        return found

    def _device(self, port: PortSpec) -> str:
        if port.kind is PortKind.SYSTEM:
            return port.options.get("iface", port.name)
        return port.options.get("iface") or device_name(self.settings.prefix, NEAR_END, port.name)

    def _peer(self, port: PortSpec) -> str:
        return port.options.get("peer") or device_name(self.settings.prefix, FAR_END, port.name)

    def attach(self, port: PortSpec) -> Attach:
        """See SwitchDriver: the far end of the veth pair."""
        if port.kind is PortKind.SYSTEM:
            return Attach(iface=self._device(port))
        peer = self._peer(port)
        return Attach(devargs=f"net_af_packet{{n}},iface={peer}", iface=peer)

    async def _make_port(self, port: PortSpec) -> None:
        try:
            await asyncio.to_thread(self._make_device, port)
        except (OSError, NetlinkError) as error:
            raise SwitchError(f"port {port.name}: {error}") from error

    def _make_device(self, port: PortSpec) -> None:
        device = self._device(port)
        if port.kind is PortKind.VETH:
            try:
                whole = port.options.get("frames") == "whole"
                make_pair(device, self._peer(port), whole_frames=whole)
            except FileExistsError as error:
                text = f"port {port.name}: {error}; choose another peer name"
                raise SwitchError(text) from error
            return
        if port.kind is PortKind.TAP:
            make_tap(device)
            return
        with IPRoute() as kernel:
            if not kernel.link_lookup(ifname=device):
                raise SwitchError(f"port {port.name}: this machine has no interface {device}")
            kernel.link("set", ifname=device, state="up")

    async def _drop_port(self, port: PortSpec) -> None:
        if port.kind in (PortKind.VETH, PortKind.TAP):
            await asyncio.to_thread(remove_device, self._device(port))

    # Rules.

    async def _apply(self, rules: list[Rule]) -> None:
        """Bridges first: a port that leaves one begins to drop when its chain is there."""
        pairs = pairs_of(rules)
        try:
            await asyncio.to_thread(self._make_bridges, pairs)
        except (NetlinkError, OSError) as error:
            raise SwitchError(f"linux-bridge: {error}") from error
        bridged = {port for pair in pairs for port in pair}
        await self._make_chains([rule for rule in rules if rule.in_port not in bridged], bridged)

    def _make_bridges(self, pairs: Sequence[tuple[str, str]]) -> None:
        prefix = self.settings.prefix
        wanted = {device_name(prefix, BRIDGE_END, a, b): (a, b) for a, b in pairs}
        with IPRoute() as kernel:
            for link in kernel.get_links():
                name = link.get_attr("IFLA_IFNAME")
                if name.startswith(prefix) and _kind(link) == "bridge" and name not in wanted:
                    kernel.link("del", index=link["index"])
            for bridge, members in wanted.items():
                join(kernel, bridge, [self._device(self._state.ports[name]) for name in members])

    async def _make_chains(self, rules: Sequence[Rule], bridged: set[str]) -> None:
        """One transaction that empties all chains and fills those of the ports that have rules.

        Counters are objects of their own, so that those of rules that stay go on.
        """
        present = await asyncio.to_thread(device_names)
        devices = {
            name: self._device(port)
            for name, port in self._state.ports.items()
            if name not in bridged and self._device(port) in present
        }
        usable = [
            rule
            for rule in rules
            if rule.in_port in devices and all(self._is_there(p, present) for p in rule.outputs)
        ]
        known = [
            *await nft.listed("chains", "netdev"),
            *await nft.listed("counters", "table", "netdev", self._table_name),
        ]
        commands: list[dict[str, Any]] = [{"add": self._table()}]
        chains = {device: f"port-{device}" for device in devices.values()}
        for entry in known:
            if entry.get("chain", {}).get("table") == self._table_name:
                name = entry["chain"]["name"]
                commands.append({"flush": self._chain(name)})
                # A chain goes with its device, and must not be left for a later one's name.
                if name not in chains.values() or "dev" not in entry["chain"]:
                    commands.append({"delete": self._chain(name)})
        counters = {counter_of(rule) for rule in usable}
        old = {entry["counter"]["name"] for entry in known if "counter" in entry}
        commands += [{"delete": self._counter(name)} for name in sorted(old - counters)]
        commands += [{"add": self._counter(name)} for name in sorted(counters - old)]
        for device, chain in chains.items():
            hook = {"type": "filter", "hook": "ingress", "dev": device, "prio": 0, "policy": "drop"}
            commands.append({"add": self._chain(chain, **hook)})
        for rule in sorted(usable, key=lambda rule: -rule.priority):
            steps = expression(rule, lambda port: self._device(self._state.ports[port]))
            where = {"family": "netdev", "table": self._table_name}
            chain = chains[devices[rule.in_port]]
            commands.append({"add": {"rule": {**where, "chain": chain, "expr": steps}}})
        if known or len(commands) > 1:
            await nft.apply(commands)

    def _is_there(self, port: str, present: set[str]) -> bool:
        return port in self._state.ports and self._device(self._state.ports[port]) in present

    def _chain(self, name: str, **more: Any) -> dict[str, Any]:
        return {"chain": {"family": "netdev", "table": self._table_name, "name": name, **more}}

    def _counter(self, name: str) -> dict[str, Any]:
        return {"counter": {"family": "netdev", "table": self._table_name, "name": name}}

    # Statistics.

    async def port_statistics(self, lsi: str | None = None) -> list[PortStatistics]:
        """See SwitchDriver: the kernel's counters of each device."""
        found = []
        for name, port in self._state.ports.items():
            if lsi not in (None, self._state.lsi_of[name]):
                continue
            counters = Path("/sys/class/net") / self._device(port) / "statistics"
            if not counters.is_dir():
                continue
            values: dict[str, Any] = {
                field: int((counters / field).read_text()) for field in COUNTERS
            }
            found.append(
                PortStatistics(lsi=self._state.lsi_of[name], port=name, ofport=0, **values)
            )
        return found

    async def rule_statistics(self, lsi: str) -> list[RuleStatistics]:
        """See SwitchDriver: of the rules that are nftables'; a bridge does not count by rule."""
        own = {rule.cookie for rule in flatten(self._state) if rule.lsi == lsi}
        found = []
        for entry in await nft.listed("counters", "table", "netdev", self._table_name):
            if "counter" in entry and cookie_of(entry["counter"]["name"]) in own:
                count = entry["counter"]
                found.append(
                    RuleStatistics(
                        cookie=cookie_of(count["name"]),
                        packets=count["packets"],
                        bytes=count["bytes"],
                    )
                )
        return found

    async def cycles(self) -> SwitchCycles:
        """See SwitchDriver: softirq time of the node's cores, including that of other work."""
        hz = tsc_hz()
        found = softirq_of(sorted({*self.settings.cores, *self.settings.control_cores}), hz)
        return SwitchCycles(
            switch=self.name,
            approximate=True,
            source=found.source,
            tsc_hz=hz,
            at_ns=time.monotonic_ns(),
            workers=found.workers,
            resolution_cycles=found.resolution_cycles,
        )

    async def version(self) -> str:
        """See SwitchDriver."""
        return f"linux-bridge, Linux {os.uname().release}"


def _kind(link: Any) -> str:
    information = link.get_attr("IFLA_LINKINFO")
    return str(information.get_attr("IFLA_INFO_KIND")) if information else ""
