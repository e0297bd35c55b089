# SPDX-License-Identifier: Apache-2.0
"""Driver of the embedded switch of an SR-IOV adapter: virtual functions steered by tc-flower.

A VNF's port is a virtual function, whose interface the engine moves into the VNF's network
namespace as it does with the far end of a pair; the port of the switch is its representor. Rules
are filters at the ingress of representors, which the adapter takes over (`skip_sw`): the kernel
sees no packet. They are in a chain of each device that is built anew at each change while the old
one works; one filter, which is replaced at once, says which of the two it is.
"""

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from headrace.machine.processes import Supervisor
from headrace.machine.tsc import tsc_hz
from headrace.switches import flower, tc
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
from headrace.switches.flat import FlatDriver
from headrace.switches.rules import Rule
from headrace.switches.sriov_nic import Nic
from headrace.switches.veth import FAR_END, device_name, device_names, silence, wait_until_up

_OFFLOADS = {"required": "skip_sw", "preferred": ""}
_CHAINS = ("1", "2")
_CHAIN = "chain "
"""Before a device, the key of the note of which chain is in use."""

_LAST = 0xFFFF
_BACK_S = 5.0
_POLL_S = 0.02
_CLASS_NET = Path("/sys/class/net")


class SriovDriver(FlatDriver):
    """Representors and filters."""

    name = "sr-iov"
    capabilities = Capabilities(
        links=False,
        port_kinds=(PortKind.SYSTEM,),
        vnf_kinds=(PortKind.VETH,),
        matches=flower.MATCHES,
        masks=flower.MASKS,
        actions=("output", "copy", "push_vlan", "pop_vlan", "set_field"),
        sets=flower.SETS,
        counters=("port",),
        timeouts=False,
        polls=False,
    )

    def __init__(self, settings: SwitchSettings, supervisor: Supervisor) -> None:
        super().__init__(settings, supervisor)
        options = settings.options
        unknown = options.keys() - {"pf", "offload", "sysfs"}
        if unknown:
            raise SwitchError(f"sr-iov: switch_options.{min(unknown)}: there are pf and offload")
        if "pf" not in options:
            raise SwitchError("sr-iov: switch_options.pf: the interface of the physical function")
        offload = options.get("offload", "required")
        if offload not in _OFFLOADS:
            raise SwitchError(f"sr-iov: switch_options.offload: {' or '.join(_OFFLOADS)}")
        self._offload = _OFFLOADS[offload]
        self._nic = Nic(options["pf"], Path(options.get("sysfs", "/sys")))
        self._made: dict[str, tuple[str, ...]] = {}

    async def start(self) -> bool:
        """See SwitchDriver. Adopted if the adapter has all functions of the node's last run."""
        await asyncio.to_thread(self._nic.check)
        if not self._load():
            return False
        present = await asyncio.to_thread(device_names)
        return all(self._device(port) in present for port in self._state.ports.values())

    async def stop(self) -> None:
        """See SwitchDriver: removes the filters and gives the functions their names back."""
        for port in list(self._state.ports.values()):
            await self._drop_port(port)
        self._forget()

    # Ports.

    def _representor(self, port: PortSpec) -> str:
        """The representor of a VNF's port, which `_make_port` has noted."""
        return self._state.notes.get(port.name, "").partition(" ")[2].partition(" ")[0]

    def _device(self, port: PortSpec) -> str:
        if port.kind is PortKind.SYSTEM:
            return port.options.get("iface", port.name)
        return self._representor(port)

    def _far_end(self, port: PortSpec) -> str:
        return port.options.get("peer") or device_name(self.settings.prefix, FAR_END, port.name)

    async def _make_port(self, port: PortSpec) -> None:
        try:
            if port.kind is PortKind.VETH and port.name not in self._state.notes:
                await asyncio.to_thread(self._take_function, port)
            await asyncio.to_thread(_bring_up, self._device(port))
            await tc.apply([f"qdisc replace dev {self._device(port)} clsact"])
        except (OSError, NetlinkError) as error:
            raise SwitchError(f"port {port.name}: {error}") from error

    def _take_function(self, port: PortSpec) -> None:
        """Notes a free function for the port and gives its interface the name of a far end."""
        notes = self._state.notes.items()
        taken = {note.partition(" ")[0] for key, note in notes if not key.startswith(_CHAIN)}
        for function in self._nic.functions():
            if function.interface is not None and str(function.number) not in taken:
                note = f"{function.number} {function.representor} {function.interface}"
                self._state.notes[port.name] = note
                _rename(function.interface, self._far_end(port))
                return
        raise SwitchError(
            f"port {port.name}: {self._nic.pf} has no free virtual function; it has "
            f"{len(self._nic.functions())}"
        )

    def _forget_port(self, port: PortSpec) -> None:
        # The note is needed until the function has its name back (`_drop_port`).
        for table in (self._state.ports, self._state.lsi_of):
            table.pop(port.name, None)

    async def _drop_port(self, port: PortSpec) -> None:
        device = self._device(port)
        self._made.pop(device, None)
        self._state.notes.pop(_CHAIN + device, None)
        there: bool = await asyncio.to_thread(_exists, device)
        if there:
            await tc.apply([f"qdisc del dev {device} clsact"], forgiving=True)
        note = self._state.notes.pop(port.name, None)
        if note is not None:
            number, _, interface = note.split(" ")
            await asyncio.to_thread(self._give_back, int(number), interface, self._far_end(port))

    def _give_back(self, number: int, name: str, far_end: str) -> None:
        """Names a function's interface as it was; the kernel brings it back from a namespace."""
        end = time.monotonic() + _BACK_S
        while (now := self._nic.interface(number)) is None and time.monotonic() < end:
            if _exists(far_end):
                now = far_end
                break
            time.sleep(_POLL_S)
        if now is not None and now != name:
            _rename(now, name)

    async def wait_for_links(self, ports: Sequence[PortSpec]) -> None:
        """See SwitchDriver: by the operational state of the representors."""
        devices = [self._device(port) for port in ports]
        try:
            await asyncio.to_thread(wait_until_up, devices)
        except (NetlinkError, OSError) as error:
            raise SwitchError(f"sr-iov: {error}") from error

    async def _gone(self, ports: Mapping[str, PortSpec]) -> set[str]:
        """Without a representor."""
        present = await asyncio.to_thread(device_names)
        return {name for name, port in ports.items() if self._device(port) not in present}

    async def links(self) -> dict[str, bool]:
        """See SwitchDriver: whether the kernel sees a carrier."""
        found = {}
        for name, port in self._state.ports.items():
            state = _CLASS_NET / self._device(port) / "operstate"
            if state.exists():
                found[name] = state.read_text().strip() == "up"
        return found

    def attach(self, port: PortSpec) -> Attach:
        """See SwitchDriver: the interface of the virtual function."""
        if port.kind is PortKind.SYSTEM:
            return Attach(iface=self._device(port))
        peer = self._far_end(port)
        return Attach(devargs=f"net_af_packet{{n}},iface={peer}", iface=peer)

    # Rules.

    async def _apply(self, rules: list[Rule]) -> None:
        """Fills the idle chain of each device whose filters change, and goes there."""
        ports = self._state.ports
        for name, port in ports.items():
            device = self._device(port)
            own = sorted((r for r in rules if r.in_port == name), key=lambda r: -r.priority)
            wanted = tuple(
                text
                for rule in own
                if all(out in ports for out in rule.outputs)
                for text in flower.filters(rule, lambda out: self._device(ports[out]))
            )
            if self._made.get(device) == wanted or not await asyncio.to_thread(_exists, device):
                continue
            old = self._state.notes.get(_CHAIN + device)
            new = _CHAINS[1] if old == _CHAINS[0] else _CHAINS[0]
            at = f"dev {device} ingress"
            await tc.apply([f"filter del {at} chain {new}"], forgiving=True)
            kind = f"flower {self._offload}".strip()
            commands = [
                f"filter add {at} chain {new} pref {number} {text.replace('flower', kind, 1)}"
                for number, text in enumerate(wanted, 1)
            ]
            commands.append(
                f"filter add {at} chain {new} pref {_LAST} protocol all {kind} action drop"
            )
            commands.append(
                f"filter replace {at} chain 0 pref 1 handle 1 protocol all {kind} "
                f"action goto chain {new}"
            )
            try:
                await tc.apply(commands)
            except SwitchError as error:
                labels = ", ".join(sorted({rule.label for rule in own})) or name
                raise SwitchError(f"{labels}: the adapter of {device} refuses: {error}") from error
            self._made[device] = wanted
            self._state.notes[_CHAIN + device] = new
            self._write()
            if old is not None:
                await tc.apply([f"filter del {at} chain {old}"], forgiving=True)

    # Statistics.

    async def port_statistics(self, lsi: str | None = None) -> list[PortStatistics]:
        """See SwitchDriver: the counters of each representor."""
        found = []
        for name, port in self._state.ports.items():
            if lsi not in (None, self._state.lsi_of[name]):
                continue
            counters = _CLASS_NET / self._device(port) / "statistics"
            if counters.is_dir():
                values = {field: int((counters / field).read_text()) for field in COUNTERS}
                owner = self._state.lsi_of[name]
                found.append(PortStatistics(lsi=owner, port=name, ofport=0, **values))
        return found

    async def rule_statistics(self, lsi: str) -> list[RuleStatistics]:
        """See SwitchDriver: a filter is made anew when others change, and begins at zero."""
        del lsi
        return []

    async def cycles(self) -> SwitchCycles:
        """See SwitchDriver: the adapter takes none of the machine's."""
        return SwitchCycles(
            switch=self.name,
            approximate=True,
            source="none: the adapter steers, not a core",
            tsc_hz=tsc_hz(),
            at_ns=time.monotonic_ns(),
            workers=(),
        )

    async def version(self) -> str:
        """See SwitchDriver: the physical function and its driver."""
        driver: str = await asyncio.to_thread(_driver_of, self._nic.pf)
        return f"sr-iov {self._nic.pf} ({driver}), Linux {os.uname().release}"


def _driver_of(interface: str) -> str:
    driver = _CLASS_NET / interface / "device/driver"
    return driver.resolve().name if driver.exists() else "unknown driver"


def _exists(device: str) -> bool:
    return bool(device) and (_CLASS_NET / device).exists()


def _bring_up(device: str) -> None:
    with IPRoute() as kernel:
        if not kernel.link_lookup(ifname=device):
            raise SwitchError(f"this machine has no interface {device}")
        kernel.link("set", ifname=device, state="up")


def _rename(device: str, name: str) -> None:
    """The kernel renames what is down; it is up, and silent, afterwards."""
    with IPRoute() as kernel:
        index = kernel.link_lookup(ifname=device)[0]
        kernel.link("set", index=index, state="down")
        kernel.link("set", index=index, ifname=name)
        silence(name)
        kernel.link("set", index=index, state="up")
