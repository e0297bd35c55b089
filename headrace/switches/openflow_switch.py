# SPDX-License-Identifier: Apache-2.0
"""Driver of any OpenFlow 1.3 switch, in hardware or software, by its address and a map of ports.

The switch is somebody else's: it runs, and its ports are there. The node gets it for itself alone
(it begins by emptying all tables and groups) and programs it by OpenFlow and by nothing else:

    switch: openflow
    switch_options: {address: "tcp:192.0.2.7:6653"}        # or tls:, or ptcp:PORT[:ADDRESS]
    ports:
      - {name: p0, kind: openflow, options: {number: "1"}}

With `tcp:` and `tls:` the node connects to the switch; with `ptcp:` and `ptls:` it listens, and
waits for the switch, as controllers do. `tls:` and `ptls:` need `ca`, `certificate` and `key` (PEM
files): each side proves who it is.

A VNF of this machine is reached by a wire from the machine to the switch: `vnf-ports: "5=eth3
6=eth4"` says that port 5 of the switch leads to our interface eth3. A VNF's port takes one that is
free; a kernel's bridge of two joins the interface with the VNF's veth pair.

What the switch forgets (it was restarted) is installed again at the next connection.
"""

import asyncio
import ssl
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from os_ken.ofproto import ofproto_v1_3 as of
from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from headrace.machine.processes import Supervisor
from headrace.machine.tsc import tsc_hz
from headrace.switches.base import (
    COUNTERS,
    Attach,
    Capabilities,
    PortKind,
    PortSpec,
    PortStatistics,
    RuleStatistics,
    SwitchCycles,
    SwitchError,
    SwitchSettings,
)
from headrace.switches.flat import FlatDriver, flatten
from headrace.switches.openflow import OpenFlowSession
from headrace.switches.openflow_target import OpenFlowTarget
from headrace.switches.rules import Rule
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
from headrace.switches.wire_bridge import join, join_tap, part_tap, parted, tap_of

_UNSUPPORTED = 0xFFFF_FFFF_FFFF_FFFF


class OpenFlowDriver(FlatDriver):
    """A switch that speaks OpenFlow 1.3."""

    name = "openflow"
    capabilities = Capabilities(
        links=False,
        port_kinds=(PortKind.OPENFLOW,),
        vnf_kinds=(PortKind.VETH, PortKind.TAP),
        actions=("output", "copy", "select", "push_vlan", "pop_vlan", "set_field"),
        polls=False,
    )

    def __init__(self, settings: SwitchSettings, supervisor: Supervisor) -> None:
        super().__init__(settings, supervisor)
        self._target: OpenFlowTarget | None = None
        self._session: OpenFlowSession | None = None
        self._connecting = asyncio.Lock()
        self._installed: dict[int, Rule] = {}
        self._wires = _wires_of(settings.options.get("vnf-ports", ""))

    # The connection.

    async def start(self) -> bool:
        """See SwitchDriver: adopted if the switch has all that the last run installed.

        Raises:
            SwitchError: it is not there, or no OpenFlow 1.3 switch.
        """
        known = self._load()
        session = await self._connect()
        wanted = {rule.cookie for rule in flatten(self._state)}
        found = {row.cookie for row in await session.rule_statistics()}
        if known and wanted <= found:
            self._installed = {rule.cookie: rule for rule in flatten(self._state)}
            return True
        await session.clear()
        self._installed = {}
        self._forget()
        return False

    async def stop(self) -> None:
        """See SwitchDriver: the switch runs on without a rule."""
        if self._load() and self._state.lsis:
            await (await self._connect()).clear()
        await self.close()
        await asyncio.to_thread(remove_devices, self.settings.prefix)
        self._forget()

    async def close(self) -> None:
        """Closes the connection; the switch keeps its rules."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        if self._target is not None:
            await self._target.close()
            self._target = None

    async def _connect(self) -> OpenFlowSession:
        async with self._connecting:
            if self._session is not None and not self._session.closed:
                return self._session
            again = self._session is not None
            if self._target is None:
                self._target = OpenFlowTarget(self._address(), _tls(self.settings.options))
            self._session = await self._target.connect()
            if again:
                await self._restore(self._session)
            return self._session

    def _address(self) -> str:
        address = self.settings.options.get("address")
        if not address:
            raise SwitchError(
                "switch_options.address is missing: tcp:HOST:PORT or tls:HOST:PORT of an OpenFlow "
                "1.3 switch, or ptcp:PORT to wait for it"
            )
        return address

    async def _restore(self, session: OpenFlowSession) -> None:
        """Installs what the switch has forgotten since the last connection."""
        found = {row.cookie for row in await session.rule_statistics()}
        lost = [rule for cookie, rule in self._installed.items() if cookie not in found]
        timeless = [rule for rule in lost if not rule.is_timed]
        if timeless:
            await session.install(timeless, self._numbers())

    # Ports.

    def _numbers(self) -> dict[str, int]:
        """The switch's number of each port."""
        taken: dict[str, int] = {}
        for name, port in self._state.ports.items():
            if port.kind is PortKind.OPENFLOW:
                taken[name] = _number(port)
            elif name in self._state.notes:
                taken[name] = int(self._state.notes[name])
        return taken

    async def _make_port(self, port: PortSpec) -> None:
        if port.kind is not PortKind.OPENFLOW:
            self._choose_wire(port)
        number = self._numbers()[port.name]
        described = await (await self._connect()).ports()
        if number not in described:
            known = ", ".join(str(n) for n in sorted(described) if n < of.OFPP_MAX)
            text = f"port {port.name}: the switch has no port {number}; it has: {known or 'none'}"
            raise SwitchError(text)
        if port.kind is not PortKind.OPENFLOW:
            try:
                await asyncio.to_thread(self._make_wire, port, self._wires[number])
            except (OSError, NetlinkError) as error:
                raise SwitchError(f"port {port.name}: {error}") from error

    def _choose_wire(self, port: PortSpec) -> None:
        if port.name in self._state.notes:
            return
        taken = {int(number) for number in self._state.notes.values()}
        free = [number for number in self._wires if number not in taken]
        if not free:
            raise SwitchError(
                f"port {port.name}: all {len(self._wires)} wires of switch_options.vnf-ports are "
                f"in use; connect more interfaces of this machine with the switch"
            )
        self._state.notes[port.name] = str(free[0])

    def _make_wire(self, port: PortSpec, interface: str) -> None:
        """Joins a VNF's pair or tap with the interface whose wire leads to the switch."""
        if port.kind is PortKind.TAP:
            join_tap(self.settings.prefix, port, interface)
            return
        near = self._device(port)
        make_pair(near, self._peer(port), whole_frames=port.options.get("frames") == "whole")
        bridge = device_name(self.settings.prefix, BRIDGE_END, port.name)
        with IPRoute() as kernel:
            join(kernel, bridge, (near, interface))

    async def _drop_port(self, port: PortSpec) -> None:
        if port.kind is PortKind.TAP:
            await asyncio.to_thread(part_tap, self.settings.prefix, port)
        elif port.kind is PortKind.VETH:
            bridge = device_name(self.settings.prefix, BRIDGE_END, port.name)
            await asyncio.to_thread(remove_device, bridge)
            await asyncio.to_thread(remove_device, self._device(port))

    def _device(self, port: PortSpec) -> str:
        if port.kind is PortKind.TAP:
            return tap_of(self.settings.prefix, port)
        return device_name(self.settings.prefix, NEAR_END, port.name)

    def _peer(self, port: PortSpec) -> str:
        return port.options.get("peer") or device_name(self.settings.prefix, FAR_END, port.name)

    def attach(self, port: PortSpec) -> Attach:
        """See SwitchDriver: the VNF's end, or the interface that node.yaml names for the port."""
        if port.kind is PortKind.TAP:
            return Attach(iface=self._device(port))
        iface = self._peer(port) if port.kind is PortKind.VETH else port.options.get("iface")
        return Attach(devargs=f"net_af_packet{{n}},iface={iface}" if iface else None, iface=iface)

    async def wait_for_links(self, ports: Sequence[PortSpec]) -> None:
        """See SwitchDriver."""
        devices = [self._device(port) for port in ports if port.kind is not PortKind.OPENFLOW]
        try:
            await asyncio.to_thread(wait_until_up, devices)
        except (NetlinkError, OSError) as error:
            raise SwitchError(f"openflow: {error}") from error

    async def _gone(self, ports: Mapping[str, PortSpec]) -> set[str]:
        numbers, described = self._numbers(), await (await self._connect()).ports()
        gone = {name for name in ports if numbers.get(name) not in described}
        present = await asyncio.to_thread(device_names)
        vnfs = (port for port in ports.values() if port.kind is not PortKind.OPENFLOW)
        lost = {port.name for port in vnfs if self._device(port) not in present}
        return gone | lost | parted(self.settings.prefix, set(ports), present)

    async def links(self) -> dict[str, bool]:
        """See SwitchDriver: what the switch says of its ports."""
        described = await (await self._connect()).ports()
        return {
            name: not described[number].state & of.OFPPS_LINK_DOWN
            for name, number in self._numbers().items()
            if number in described
        }

    # Rules and statistics.

    async def _apply(self, rules: list[Rule]) -> None:
        session, wanted = await self._connect(), {rule.cookie: rule for rule in rules}
        changed = [rule for cookie, rule in wanted.items() if self._installed.get(cookie) != rule]
        gone = [rule for cookie, rule in self._installed.items() if cookie not in wanted]
        if gone:
            await session.remove(gone, self._numbers())
            for rule in gone:
                del self._installed[rule.cookie]
        # A group that no longer selects goes with its rule.
        stale = [self._installed.pop(rule.cookie) for rule in changed if self._was_group(rule)]
        if stale:
            await session.remove(stale, self._numbers())
        if changed:
            await session.install(changed, self._numbers())
            self._installed.update((rule.cookie, rule) for rule in changed)

    def _was_group(self, rule: Rule) -> bool:
        before = self._installed.get(rule.cookie)
        return before is not None and before.select is not None and rule.select is None

    async def rule_statistics(self, lsi: str) -> list[RuleStatistics]:
        """See SwitchDriver: of the rules that take packets from real ports."""
        own = {rule.cookie for rule in self._state.rules.values() if rule.lsi == lsi}
        rows = await (await self._connect()).rule_statistics()
        return [row for row in rows if row.cookie in own]

    async def port_statistics(self, lsi: str | None = None) -> list[PortStatistics]:
        """See SwitchDriver."""
        counters = await (await self._connect()).port_statistics()
        found = []
        for name, number in self._numbers().items():
            if number not in counters or lsi not in (None, self._state.lsi_of[name]):
                continue
            values = {field: int(getattr(counters[number], field)) for field in COUNTERS}
            known = {field: 0 if n == _UNSUPPORTED else n for field, n in values.items()}
            owner = self._state.lsi_of[name]
            found.append(PortStatistics(lsi=owner, port=name, ofport=number, **known))
        return found

    async def cycles(self) -> SwitchCycles:
        """See SwitchDriver: OpenFlow tells nothing of them."""
        return SwitchCycles(
            switch=self.name,
            approximate=True,
            source="none: OpenFlow does not tell the switch's cycles",
            tsc_hz=tsc_hz(),
            at_ns=time.monotonic_ns(),
            workers=(),
        )

    async def version(self) -> str:
        """See SwitchDriver: what the switch says of itself."""
        return f"openflow 1.3: {await (await self._connect()).description()}"


def _number(port: PortSpec) -> int:
    try:
        number = int(port.options["number"])
    except (KeyError, ValueError):
        text = f"port {port.name}: options.number: give the switch's number of the port"
        raise SwitchError(text) from None
    if not 1 <= number < of.OFPP_MAX:
        raise SwitchError(f"port {port.name}: options.number: {number} is no port of a switch")
    return number


def _wires_of(text: str) -> dict[int, str]:
    """The interfaces of `5=eth3 6=eth4`, by the switch's numbers."""
    found = {}
    for word in text.split():
        number, _, interface = word.partition("=")
        if not number.isdigit() or not interface:
            raise SwitchError(f"switch_options.vnf-ports: {word!r} is no NUMBER=INTERFACE")
        found[int(number)] = interface
    return found


def _tls(options: Mapping[str, str]) -> ssl.SSLContext | None:
    """Both sides prove who they are, as OpenFlow switches demand it (OVS's PKI)."""
    address = options.get("address", "")
    if address.partition(":")[0] not in ("tls", "ptls"):
        return None
    for key in ("ca", "certificate", "key"):
        if key not in options:
            raise SwitchError(f"switch_options.{key} is missing: the PEM file for {address}")
        if not Path(options[key]).is_file():
            raise SwitchError(f"switch_options.{key}: there is no file {options[key]}")
    server = address.startswith("p")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if server else ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # a switch's certificate names the switch, not its address
    context.verify_mode = ssl.CERT_REQUIRED
    try:
        context.load_verify_locations(options["ca"])
        context.load_cert_chain(options["certificate"], options["key"])
    except (OSError, ssl.SSLError) as error:
        raise SwitchError(f"switch_options: the files for {address}: {error}") from error
    return context
