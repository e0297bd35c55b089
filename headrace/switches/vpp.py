# SPDX-License-Identifier: Apache-2.0
"""Driver of VPP through its binary API: of one that runs already, or of one of the node's own.

What a rule takes is an interface of VPP: a port as a whole, what comes to it with a VLAN tag (a
sub-interface with that tag), or without one (an untagged sub-interface). What it sends to is an
interface, too; a tag is pushed by sending to a sub-interface that takes its tag off what it
receives. Each rule is then one layer-2 cross connect, the cheapest path that VPP has (feature
l2-input, node l2-output), and there is nothing to match beyond port and tag.

The state is VPP's own: interfaces carry the tag `<prefix>/<port>`, and each change compares what
VPP tells with what the rules need. So it does not matter how far an earlier attempt came, and a VPP
that was started again is empty, which the node sees and mends.
"""

import asyncio
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
    vdev_devargs,
)
from headrace.switches.fields import VLAN_PRESENT
from headrace.switches.flat import FlatDriver
from headrace.switches.rules import Output, PopVlan, PushVlan, Rule
from headrace.switches.veth import (
    FAR_END,
    device_name,
    make_pair,
    remove_device,
    remove_devices,
    wait_until_up,
)
from headrace.switches.vpp_api import VppApi
from headrace.switches.vpp_process import VppProcess

_NONE = 0xFFFF_FFFF  # no interface, or a number that VPP chooses
_UP = 1  # if_status_flags: admin up
_NO_TAGS, _ONE_TAG = 1, 2  # sub_if_flags
_POP_1 = 3  # l2_interface_vlan_tag_rewrite: pop one tag of what comes in, push it on what goes out
_UNTAGGED_ID = 4095  # the number of the sub-interface without a tag: no VLAN has it
_ETHERNET = 1  # af_packet_mode, memif_mode counts from 0
DEFAULT_SOCKET = "/run/vpp/api.sock"
_SHOWN = {
    "rx packets": "rx_packets",
    "rx bytes": "rx_bytes",
    "tx packets": "tx_packets",
    "tx bytes": "tx_bytes",
    "rx-miss": "rx_dropped",
    "tx-error": "tx_dropped",
}
"""The counters of `show interface` that ports have."""

Place = tuple[str, int | None]
"""A port and a VLAN; None is all of the port, 0 what has no tag."""


@dataclass(frozen=True)
class Wiring:
    """What rules need: from where to where, and which sub-interfaces take off and put on a tag."""

    connects: Mapping[Place, Place]
    rewrites: Mapping[Place, bool]


def wiring_of(rules: Sequence[Rule]) -> Wiring:
    """The cross connects of flattened rules.

    Raises:
        SwitchError: one needs what a sub-interface cannot do together with another; names it.
    """
    connects: dict[Place, Place] = {}
    rewrites: dict[Place, bool] = {}

    def note(place: Place, pops: bool, rule: Rule) -> Place:
        if place[1] and rewrites.setdefault(place, pops) != pops:
            raise SwitchError(
                f"{rule.label}: vpp either leaves tag {place[1]} on port {place[0]} as it is or "
                f"takes it off and puts it on, and another rule needs it the other way: [{rule}]"
            )
        return place

    for rule in rules:
        if not rule.outputs:
            continue
        wanted = rule.match.get("vlan_vid")
        vlan = None if wanted is None else wanted.value & ~VLAN_PRESENT
        pops, pushed = False, None
        target: Place | None = None
        for action in rule.actions:
            if isinstance(action, PopVlan):
                if pushed is not None:
                    pushed = None
                elif not vlan or pops:
                    text = "vpp takes off only the one tag that a rule matches"
                    raise SwitchError(f"{rule.label}: {text}: [{rule}]")
                else:
                    pops = True
            elif isinstance(action, PushVlan):
                if pushed is not None:
                    raise SwitchError(f"{rule.label}: vpp pushes one tag: [{rule}]")
                pushed = action.vlan_id
            elif isinstance(action, Output):
                target = (action.port, pushed)
        if target is not None:
            source = note((rule.in_port, vlan), pops, rule)
            connects[source] = note(target, True, rule)
    return Wiring(connects, rewrites)


class VppDriver(FlatDriver):
    """Cross connects of VPP."""

    name = "vpp"
    capabilities = Capabilities(
        links=False,
        port_kinds=(PortKind.VETH, PortKind.SYSTEM, PortKind.MEMIF, PortKind.VHOST_USER),
        vnf_kinds=(PortKind.MEMIF, PortKind.VHOST_USER, PortKind.VETH),
        matches=("vlan_vid",),
        masks=(),
        actions=("output", "push_vlan", "pop_vlan"),
        sets=(),
        counters=("port",),
        timeouts=False,
        priorities=False,
    )

    def __init__(self, settings: SwitchSettings, supervisor: Supervisor) -> None:
        super().__init__(settings, supervisor)
        unknown = settings.options.keys() - {"socket", "program"}
        if unknown:
            text = f"vpp: switch_options.{min(unknown)}: there are only socket and program"
            raise SwitchError(text)
        self._process: VppProcess | None = None
        socket = Path(settings.options.get("socket", DEFAULT_SOCKET))
        if program := settings.options.get("program"):
            if "socket" in settings.options:
                raise SwitchError(
                    "vpp: switch_options: either socket, of a VPP that runs, or program"
                )
            self._process = VppProcess(settings, supervisor, program)
            socket = self._process.socket
        self._api = VppApi(socket)

    async def start(self) -> bool:
        """See SwitchDriver: VPP runs; adopted if it still has all ports of the node's last run."""
        if self._process is not None and not await self._process.ensure():
            await self._api.close()  # it led to the one before
        await self._api.call("control_ping")
        known = self._load()
        own = await self._own()
        if known and self._state.ports.keys() <= own.keys():
            return True
        for port in self._state.ports.values():
            await self._drop_port(port)
        self._forget()
        return False

    async def stop(self) -> None:
        """See SwitchDriver: one of the node's own ends, another runs on without the interfaces."""
        if self._process is not None:
            await self._api.close()
            await self._process.end()
            for end in ("g", FAR_END):  # as in OvsProcesses.stop
                await asyncio.to_thread(remove_devices, f"{self.settings.prefix}{end}")
        else:
            self._load()  # `headrace down` stops what it has not started
            await self._apply([])
            for port in list(self._state.ports.values()):
                await self._drop_port(port)
            await self._api.close()
        self._forget()

    async def close(self) -> None:
        """Lets go of VPP."""
        await self._api.close()

    def processes(self) -> tuple[str, ...]:
        """See SwitchDriver."""
        return () if self._process is None else (self._process.name,)

    def watched(self) -> tuple[str, ...]:
        """See SwitchDriver."""
        return self.processes()

    # Ports.

    def _tag(self, port: str) -> str:
        return f"{self.settings.named(self.settings.prefix)}/{port}"

    async def _interfaces(self) -> list[Any]:
        return await self._api.dump("sw_interface_dump", sw_if_index=_NONE)

    async def _own(self) -> dict[str, int]:
        """The numbers of the interfaces of the node's ports, by port."""
        begin = self._tag("")
        return {
            row.tag.removeprefix(begin): row.sw_if_index
            for row in await self._interfaces()
            if row.tag.startswith(begin)
        }

    def _device(self, port: PortSpec) -> str:
        return port.options.get("iface") or port.name

    def _far_end(self, port: PortSpec) -> str:
        return port.options.get("peer") or device_name(self.settings.prefix, FAR_END, port.name)

    async def _make_port(self, port: PortSpec) -> None:
        if port.name in await self._own():
            return
        match port.kind:
            case PortKind.MEMIF:
                made = await self._make_memif(port)
            case PortKind.VHOST_USER:
                made = await self._api.call(
                    "create_vhost_user_if_v2",
                    is_server=False,
                    sock_filename=port.options["path"],
                    enable_packed=True,
                )
            case _:
                if port.kind is PortKind.VETH:
                    await self._make_pair(port)
                made = await self._make_packet(port)
        number = made.sw_if_index
        tag = self._tag(port.name)
        await self._api.call("sw_interface_tag_add_del", is_add=True, sw_if_index=number, tag=tag)
        await self._up(number)

    async def _make_pair(self, port: PortSpec) -> None:
        whole = port.options.get("frames") == "whole"
        ends = self._device(port), self._far_end(port)
        try:
            await asyncio.to_thread(make_pair, *ends, whole_frames=whole)
        except (OSError, NetlinkError) as error:
            raise SwitchError(f"port {port.name}: {error}") from error

    async def _up(self, number: int) -> None:
        await self._api.call("sw_interface_set_flags", sw_if_index=number, flags=_UP)

    async def _make_packet(self, port: PortSpec) -> Any:
        fields = {"use_random_hw_addr": True, "host_if_name": self._device(port)}
        if await self._api.has("af_packet_create_v3"):
            more = {"mode": _ETHERNET, "num_rx_queues": 1, "num_tx_queues": 1}
            return await self._api.call("af_packet_create_v3", **fields, **more)
        return await self._api.call("af_packet_create_v2", **fields, num_rx_queues=1)

    async def _make_memif(self, port: PortSpec) -> Any:
        socket = await self._api.call(
            "memif_socket_filename_add_del_v2",
            is_add=True,
            socket_id=_NONE,
            socket_filename=port.options["socket"],
        )
        return await self._api.call(
            "memif_create_v2",
            role=int(port.options.get("role", "server") == "client"),
            mode=0,
            rx_queues=1,
            tx_queues=1,
            id=int(port.options.get("id", "0")),
            socket_id=socket.socket_id,
            ring_size=1024,
            buffer_size=2048,
            no_zero_copy=False,
        )

    async def _drop_port(self, port: PortSpec) -> None:
        number = (await self._own()).get(port.name)
        if number is not None:
            match port.kind:
                case PortKind.MEMIF:
                    await self._api.call("memif_delete", sw_if_index=number)
                    await self._drop_memif_socket(port.options["socket"])
                case PortKind.VHOST_USER:
                    await self._api.call("delete_vhost_user_if", sw_if_index=number)
                case _:
                    name = self._device(port)
                    await self._api.call("af_packet_delete", host_if_name=name)
        if port.kind is PortKind.VETH:
            await asyncio.to_thread(remove_device, self._device(port))

    async def _drop_memif_socket(self, file: str) -> None:
        for row in await self._api.dump("memif_socket_filename_dump"):
            if row.socket_filename == file:
                await self._api.call(
                    "memif_socket_filename_add_del_v2",
                    is_add=False,
                    socket_id=row.socket_id,
                    socket_filename=file,
                )

    async def wait_for_links(self, ports: Sequence[PortSpec]) -> None:
        """See SwitchDriver: by the operational state of the near ends."""
        devices = [self._device(port) for port in ports]
        try:
            await asyncio.to_thread(wait_until_up, devices)
        except (OSError, NetlinkError) as error:
            raise SwitchError(f"vpp: {error}") from error

    async def _gone(self, ports: Mapping[str, PortSpec]) -> set[str]:
        """Without an interface in VPP."""
        return set(ports) - (await self._own()).keys()

    async def links(self) -> dict[str, bool]:
        """See SwitchDriver: what VPP knows of them."""
        begin = self._tag("")
        return {
            row.tag.removeprefix(begin): bool(int(row.flags) & 2)
            for row in await self._interfaces()
            if row.tag.startswith(begin)
        }

    def attach(self, port: PortSpec) -> Attach:
        """See SwitchDriver."""
        if port.kind in (PortKind.MEMIF, PortKind.VHOST_USER):
            return Attach(devargs=vdev_devargs(port))
        if port.kind is PortKind.SYSTEM:
            return Attach(iface=self._device(port))
        peer = self._far_end(port)
        return Attach(devargs=f"net_af_packet{{n}},iface={peer}", iface=peer)

    # Rules.

    async def _apply(self, rules: list[Rule]) -> None:
        """Makes sub-interfaces and connects first, so that nothing stops that goes on."""
        wanted = wiring_of(rules)
        own = await self._own()
        places = {*wanted.connects, *wanted.connects.values()}
        subs = await self._subs(own)
        numbers: dict[Place, int] = {}
        for place in sorted(places, key=str):
            port, vlan = place
            if port not in own:
                continue  # it has gone; the node makes it again, and then this
            if vlan is None:
                numbers[place] = own[port]
                continue
            row = subs.get(place)
            numbers[place] = (
                await self._make_sub(own[port], vlan) if row is None else row.sw_if_index
            )
            pops = wanted.rewrites.get(place, False)
            if (row is not None and int(row.vtr_op) == _POP_1) != pops:
                await self._api.call(
                    "l2_interface_vlan_tag_rewrite",
                    sw_if_index=numbers[place],
                    vtr_op=_POP_1 if pops else 0,
                )
        before = {
            row.rx_sw_if_index: row.tx_sw_if_index
            for row in await self._api.dump("l2_xconnect_dump")
        }
        after = {
            numbers[source]: numbers[target]
            for source, target in wanted.connects.items()
            if source in numbers and target in numbers
        }
        for source, target in after.items():
            if before.get(source) != target:
                await self._connect(source, target, enable=True)
        mine = {*own.values(), *(row.sw_if_index for row in subs.values())}
        for source in (before.keys() & mine) - after.keys():
            await self._connect(source, before[source], enable=False)
        for place, row in subs.items():
            if place not in places:
                await self._api.call("delete_subif", sw_if_index=row.sw_if_index)

    async def _connect(self, source: int, target: int, enable: bool) -> None:
        await self._api.call(
            "sw_interface_set_l2_xconnect",
            rx_sw_if_index=source,
            tx_sw_if_index=target,
            enable=enable,
        )

    async def _subs(self, own: Mapping[str, int]) -> dict[Place, Any]:
        """The sub-interfaces of the node's ports."""
        ports = {number: port for port, number in own.items()}
        return {
            (ports[row.sup_sw_if_index], row.sub_id % _UNTAGGED_ID): row
            for row in await self._interfaces()
            if row.sup_sw_if_index in ports and row.sw_if_index != row.sup_sw_if_index
        }

    async def _make_sub(self, port: int, vlan: int) -> int:
        made = await self._api.call(
            "create_subif",
            sw_if_index=port,
            sub_id=vlan or _UNTAGGED_ID,
            sub_if_flags=_ONE_TAG if vlan else _NO_TAGS,
            outer_vlan_id=vlan,
        )
        await self._up(made.sw_if_index)
        return int(made.sw_if_index)

    # Statistics.

    async def port_statistics(self, lsi: str | None = None) -> list[PortStatistics]:
        """See SwitchDriver: as `show interface` has them."""
        own = await self._own()
        shown = _counters((await self._api.call("cli_inband", cmd="show interface")).reply)
        return [
            PortStatistics(
                lsi=owner,
                port=port,
                ofport=own[port],
                **{name: shown.get(own[port], {}).get(name, 0) for name in COUNTERS},
            )
            for port, owner in self._state.lsi_of.items()
            if port in own and lsi in (None, owner)
        ]

    async def rule_statistics(self, lsi: str) -> list[RuleStatistics]:
        """See SwitchDriver: a cross connect counts nothing."""
        del lsi
        return []

    async def cycles(self) -> SwitchCycles:
        """See SwitchDriver: none. VPP counts the clocks of its nodes, empty rounds with them."""
        return SwitchCycles(
            switch=self.name,
            approximate=True,
            source="none: VPP does not tell rounds with packets from empty ones (`show runtime`)",
            tsc_hz=tsc_hz(),
            at_ns=time.monotonic_ns(),
            workers=(),
        )

    async def version(self) -> str:
        """See SwitchDriver."""
        said = await self._api.call("show_version")
        return f"vpp {said.version}"


def _counters(text: str) -> dict[int, dict[str, int]]:
    """The counters of `show interface`, by the numbers of the interfaces."""
    found: dict[int, dict[str, int]] = {}
    current: dict[str, int] = {}
    for line in text.splitlines():
        begins = re.match(r"(\S+)\s+(\d+)\s+(?:up|down)\b", line)
        if begins:
            current = found.setdefault(int(begins[2]), {})
        counted = re.search(r"\s([a-z][a-z -]*?)\s+(\d+)\s*$", line)
        if counted and counted[1] in _SHOWN:
            current[_SHOWN[counted[1]]] = int(counted[2])
    return found
