# SPDX-License-Identifier: Apache-2.0
"""Driver of the kernel's bridge, for comparison: graphs whose rules join ports in pairs.

A Linux bridge has no rules, so LSIs, patch ports and rules are kept in a file, and each pair of
ports that they connect end to end in both directions becomes one bridge with two members that
floods and does not learn: a wire. Two rules p0 -> link and link -> v (and back) give one bridge of
p0 and v. The file is written before the kernel is changed, and every change brings the kernel to
the state of the file, so a step can be repeated after a crash.

Physical ports are veth pairs: one end is in the bridge, the other is for the peer. A VNF's port is
a pair too; its engine moves the far end into a network namespace. A virtual machine's is a tap,
which its engine opens.
"""

import asyncio
import time
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from headrace.machine.processes import Supervisor, write_atomically
from headrace.machine.tsc import tsc_hz
from headrace.switches.base import (
    COUNTERS,
    Attach,
    Capabilities,
    LinkSpec,
    PortKind,
    PortSpec,
    PortStatistics,
    RuleStatistics,
    SwitchCycles,
    SwitchError,
    SwitchSettings,
    WorkerCycles,
)
from headrace.switches.rules import Rule
from headrace.switches.tap import make_tap
from headrace.switches.veth import (
    BRIDGE_END,
    FAR_END,
    NEAR_END,
    answer_no_arp,
    device_name,
    device_names,
    make_pair,
    remove_device,
    remove_devices,
    silence,
    wait_until_up,
)

_CLOCK_TICKS_HZ = 100  # USER_HZ, the unit of /proc/stat


class _State(BaseModel):
    lsis: list[str] = []
    ports: dict[str, PortSpec] = {}
    lsi_of: dict[str, str] = {}
    links: list[LinkSpec] = []
    rules: dict[str, Rule] = {}


def pairs_of(state: _State) -> list[tuple[str, str]]:
    """The pairs of ports that the rules connect end to end both ways; each once, sorted."""
    step = {rule.in_port: rule.outputs[0] for rule in state.rules.values() if rule.is_plain()}
    peer = {}
    for link in state.links:
        peer[link.first_port], peer[link.second_port] = link.second_port, link.first_port

    def end_of(port: str) -> str | None:
        """The real port that traffic from `port` ends at."""
        at = step.get(port)
        for _ in range(len(step) + 1):
            if at is None or at in state.ports:
                return at
            at = step.get(peer.get(at, ""))
        return None

    found = set()
    for port in state.ports:
        end = end_of(port)
        if end is not None and end != port and end_of(end) == port:
            found.add((min(port, end), max(port, end)))
    return sorted(found)


class LinuxBridgeDriver:
    """Bridges of two ports each."""

    name = "linux-bridge"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH, PortKind.SYSTEM),
        vnf_kinds=(PortKind.VETH, PortKind.TAP),
        end_points=("interface", "host-stack", "management"),
        point_to_point_only=True,
        polls=False,
    )

    def __init__(self, settings: SwitchSettings, supervisor: Supervisor) -> None:
        self.settings = settings
        self._file = settings.rundir / "linux-bridge.json"
        self._state = _State()
        self._lock = asyncio.Lock()

    async def start(self) -> bool:
        """See SwitchDriver. The kernel keeps forwarding; adopted if its devices exist."""
        try:
            self._state = _State.model_validate_json(self._file.read_text())
        except FileNotFoundError:
            return False
        present = await asyncio.to_thread(device_names)
        return all(self._device(port) in present for port in self._state.ports.values())

    async def stop(self) -> None:
        """See SwitchDriver: removes every device whose name begins with the node's prefix."""
        await asyncio.to_thread(remove_devices, self.settings.prefix)
        self._file.unlink(missing_ok=True)
        self._state = _State()

    async def close(self) -> None:
        """Nothing is kept open."""

    def processes(self) -> tuple[str, ...]:
        """See SwitchDriver: the kernel has none."""
        return ()

    def watched(self) -> tuple[str, ...]:
        """See SwitchDriver: the kernel has none."""
        return ()

    async def wait_for_links(self, ports: Sequence[PortSpec]) -> None:
        """See SwitchDriver: by the operational state of the near ends."""
        devices = [self._device(port) for port in ports]
        try:
            await asyncio.to_thread(wait_until_up, devices)
        except (NetlinkError, OSError) as error:
            raise SwitchError(f"linux-bridge: {error}") from error

    async def missing(self, ports: Collection[str]) -> set[str]:
        """See SwitchDriver: without a device, as when a namespace took its far end with it."""
        present = await asyncio.to_thread(device_names)
        held = self._state.ports
        return {name for name in ports if name in held and self._device(held[name]) not in present}

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

    async def _change(self, what: str) -> None:
        """Writes the state, then applies it to the kernel."""
        write_atomically(self._file, self._state.model_dump_json())
        try:
            await asyncio.to_thread(self._reconcile)
        except NetlinkError as error:
            raise SwitchError(f"linux-bridge: {what}: {error}") from error

    def _reconcile(self) -> None:
        prefix = self.settings.prefix
        wanted = {device_name(prefix, BRIDGE_END, a, b): (a, b) for a, b in pairs_of(self._state)}
        with IPRoute() as kernel:
            for link in kernel.get_links():
                name = link.get_attr("IFLA_IFNAME")
                if name.startswith(prefix) and _kind(link) == "bridge" and name not in wanted:
                    kernel.link("del", index=link["index"])
            for bridge, members in wanted.items():
                if not kernel.link_lookup(ifname=bridge):
                    kernel.link("add", ifname=bridge, kind="bridge", br_mcast_snooping=0)
                    silence(bridge)
                    answer_no_arp(bridge)
                index = kernel.link_lookup(ifname=bridge)[0]
                for member in members:
                    device = self._device(self._state.ports[member])
                    found = kernel.link_lookup(ifname=device)
                    if not found:
                        raise SwitchError(f"port {member}: its device {device} has gone")
                    kernel.link("set", index=found[0], master=index, state="up")
                    kernel.brport("set", index=found[0], learning=0)
                kernel.link("set", index=index, state="up")

    async def create_lsi(self, lsi: str) -> None:
        """See SwitchDriver."""
        async with self._lock:
            if lsi not in self._state.lsis:
                self._state.lsis.append(lsi)
                await self._change(f"LSI {lsi}")

    async def delete_lsi(self, lsi: str) -> None:
        """See SwitchDriver."""
        async with self._lock:
            state = self._state
            for name in [name for name, owner in state.lsi_of.items() if owner == lsi]:
                await self._drop_port(state.ports[name])
            state.links = [link for link in state.links if lsi not in (link.first, link.second)]
            state.rules = {key: r for key, r in state.rules.items() if r.lsi != lsi}
            state.lsis = [name for name in state.lsis if name != lsi]
            await self._change(f"LSI {lsi}")

    async def add_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver: makes the veth pair, or takes an interface that exists."""
        if port.kind not in self.capabilities.offered:
            kinds = ", ".join(sorted(self.capabilities.offered))
            raise SwitchError(
                f"port {port.name}: {self.name} has no {port.kind} ports, only {kinds}"
            )
        async with self._lock:
            self._state.ports[port.name] = port
            self._state.lsi_of[port.name] = lsi
            try:
                await asyncio.to_thread(self._make_device, port)
                await self._change(f"port {port.name}")
            except (NetlinkError, OSError, SwitchError) as error:
                await self._drop_port(port)
                raise SwitchError(f"port {port.name}: {error}") from error

    def _make_device(self, port: PortSpec) -> None:
        device = self._device(port)
        if port.kind is PortKind.VETH:
            try:
                whole = port.options.get("frames") == "whole"
                make_pair(device, self._peer(port), whole_frames=whole)
            except FileExistsError as error:
                raise SwitchError(f"{error}; choose another peer name") from error
            return
        if port.kind is PortKind.TAP:
            make_tap(device)
            return
        with IPRoute() as kernel:
            if not kernel.link_lookup(ifname=device):
                raise SwitchError(f"this machine has no interface {device}")
            kernel.link("set", ifname=device, state="up")

    async def _drop_port(self, port: PortSpec) -> None:
        self._state.ports.pop(port.name, None)
        self._state.lsi_of.pop(port.name, None)
        if port.kind in (PortKind.VETH, PortKind.TAP):
            await asyncio.to_thread(remove_device, self._device(port))

    async def remove_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        async with self._lock:
            await self._drop_port(port)
            await self._change(f"port {port.name}")

    async def connect_lsis(self, link: LinkSpec) -> None:
        """See SwitchDriver."""
        async with self._lock:
            if link not in self._state.links:
                self._state.links.append(link)
                await self._change(f"link {link.first_port}-{link.second_port}")

    async def disconnect_lsis(self, link: LinkSpec) -> None:
        """See SwitchDriver."""
        async with self._lock:
            self._state.links = [other for other in self._state.links if other != link]
            await self._change(f"link {link.first_port}-{link.second_port}")

    async def install_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver."""
        async with self._lock:
            for rule in rules:
                if not rule.is_plain():
                    raise SwitchError(
                        f"{rule.label}: linux-bridge only joins ports in pairs, it has no [{rule}]"
                    )
                self._state.rules[rule.identity] = rule
            await self._change("rules")

    async def remove_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver."""
        async with self._lock:
            for rule in rules:
                self._state.rules.pop(rule.identity, None)
            await self._change("rules")

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
        """See SwitchDriver: a bridge does not count by rule."""
        return []

    async def cycles(self) -> SwitchCycles:
        """See SwitchDriver: softirq time of the node's cores, including that of other work."""
        hz = tsc_hz()
        cores = sorted({*self.settings.cores, *self.settings.control_cores})
        return SwitchCycles(
            switch=self.name,
            approximate=True,
            source="softirq time of /proc/stat",
            tsc_hz=hz,
            at_ns=time.monotonic_ns(),
            workers=softirq_cycles(_read("/proc/stat"), cores, hz),
            resolution_cycles=len(cores) * hz / _CLOCK_TICKS_HZ,
        )

    async def version(self) -> str:
        """See SwitchDriver."""
        return f"linux-bridge, Linux {_read('/proc/sys/kernel/osrelease').strip()}"


def softirq_cycles(text: str, cores: Sequence[int], hz: float) -> tuple[WorkerCycles, ...]:
    """Softirq time as busy and all else as idle cycles, from /proc/stat (proc(5))."""
    workers = []
    for line in text.splitlines():
        head, *columns = line.split()
        if not head.startswith("cpu") or not head[3:].isdigit() or int(head[3:]) not in cores:
            continue
        ticks = [int(column) for column in columns[:8]]  # guest time is contained in user time
        busy = ticks[6]
        per_tick = hz / _CLOCK_TICKS_HZ
        workers.append(
            WorkerCycles(
                core=int(head[3:]),
                busy_cycles=round(busy * per_tick),
                idle_cycles=round((sum(ticks) - busy) * per_tick),
                packets=0,
            )
        )
    return tuple(workers)


def _read(path: str) -> str:
    return Path(path).read_text()


def _kind(link: Any) -> str:
    information = link.get_attr("IFLA_LINKINFO")
    return str(information.get_attr("IFLA_INFO_KIND")) if information else ""
