# SPDX-License-Identifier: Apache-2.0
"""The base of drivers of switches with Open vSwitch's interfaces: OVSDB and OpenFlow 1.3.

It runs its own ovsdb-server with the stock schema and its own switch daemon, both with sockets,
database and logs below the node's directory, so a system Open vSwitch is never touched. Subclasses
define the daemon and its configuration.

Rows created here carry `external_ids:headrace`, and names come from the node, so every operation
can check whether its work is already done, and can be repeated after a crash.
"""

import asyncio
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path

from os_ken.ofproto.ofproto_v1_3 import OFPP_CONTROLLER, OFPP_LOCAL
from pyroute2.netlink.exceptions import NetlinkError

from headrace.machine.patience import patient
from headrace.switches.base import (
    COUNTERS,
    Attach,
    LinkSpec,
    PortKind,
    PortSpec,
    PortStatistics,
    QueueSpec,
    RuleStatistics,
    SwitchError,
    vdev_devargs,
)
from headrace.switches.ofctl import ofctl
from headrace.switches.openflow import OpenFlowSession
from headrace.switches.ovs_processes import OvsProcesses
from headrace.switches.ovsdb import Copy, OvsdbError, Row, as_map, from_set, named
from headrace.switches.rules import CONTROLLER, LOCAL, Rule
from headrace.switches.veth import (
    FAR_END,
    LINK_PATIENCE_S,
    device_name,
    device_names,
    make_pair,
    remove_device,
)

_ASKED_AT_ONCE = 64
_LINE_RATE = 10_000_000_000  # bit/s of a port with queues, which have to have one to share
_LOCAL_PORT = 65534  # OVS's number of OpenFlow's LOCAL


class OvsFamilyDriver(OvsProcesses):
    """LSIs are bridges, links are patch ports, rules are OpenFlow; see SwitchDriver."""

    datapath_type = "netdev"

    # LSIs, ports, links.

    def _has_local(self, lsi: str) -> bool:
        """Whether an LSI has a port to the kernel of its own name (OpenFlow's LOCAL)."""
        del lsi
        return True  # Open vSwitch makes one anyway

    async def create_lsi(self, lsi: str) -> None:
        """See SwitchDriver: a bridge in fail mode secure, without rules."""
        if lsi in (await self._copy()).bridges:
            return
        local = self._insert_port(lsi, "internal", {}, {}) if self._has_local(lsi) else []
        await self._configure(
            f"LSI {lsi}",
            *local,
            {
                "op": "insert",
                "table": "Bridge",
                "uuid-name": "bridge",
                "row": {
                    "name": lsi,
                    "datapath_type": self.datapath_type,
                    "fail_mode": "secure",
                    "protocols": "OpenFlow13",
                    "ports": named("port") if local else ["set", []],
                    "external_ids": as_map({"headrace": "lsi"}),
                },
            },
            _mutate("Open_vSwitch", [], "bridges", "insert", named("bridge")),
        )

    @staticmethod
    def _insert_port(
        name: str,
        kind: str,
        options: dict[str, str],
        labels: dict[str, str],
        tag: str = "",
        number: int | None = None,
    ) -> list[Row]:
        interface: Row = {
            "name": name,
            "type": kind,
            "options": as_map(options),
            "external_ids": as_map({"headrace": "port", **labels}),
        }
        if number is not None:
            interface["ofport_request"] = number
        port = {"name": name, "interfaces": named(f"interface{tag}")}
        return [
            {
                "op": "insert",
                "table": "Interface",
                "uuid-name": f"interface{tag}",
                "row": interface,
            },
            {"op": "insert", "table": "Port", "uuid-name": f"port{tag}", "row": port},
        ]

    async def delete_lsi(self, lsi: str) -> None:
        """See SwitchDriver."""
        session = self._sessions.pop(lsi, None)
        if session is not None:
            await session.close()
        bridge = (await self._copy()).bridges.get(lsi)
        if bridge is not None:
            row = ["uuid", bridge]
            await self._configure(
                f"LSI {lsi}", _mutate("Open_vSwitch", [], "bridges", "delete", row)
            )

    async def add_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        if port.kind not in self.capabilities.offered:
            kinds = ", ".join(sorted(self.capabilities.offered))
            raise SwitchError(
                f"port {port.name}: {self.name} has no {port.kind} ports, only {kinds}"
            )
        if port.kind is PortKind.PATCH:
            async with self._shared:  # ports are made at once, and the first makes their LSI
                await self.create_lsi(port.options["lsi"])
            await self._join(_link_of(lsi, port), int(port.options["number"]))
            return
        kind, options = self._interface(port)
        if port.kind is PortKind.VETH:
            await self._make_pair(lsi, port)
        if port.name not in (await self._copy()).ports:
            _clear_listening_socket(port)
            attached = _mutate("Bridge", [["name", "==", lsi]], "ports", "insert", named("port"))
            await self._configure(
                f"port {port.name}",
                *self._insert_port(port.name, kind, options, port.labels),
                attached,
            )
        try:
            await self._expect_in_service(port.name)
        except SwitchError:
            await self._remove_port_row(lsi, port.name)
            raise

    async def _expect_in_service(self, name: str) -> None:
        row = (await self._copy()).interfaces.get(name)
        if row is None:
            raise SwitchError(f"port {name}: it was removed from the database")
        if not row.ofport:
            reason = row.error or "no reason given"
            raise SwitchError(f"port {name}: the switch rejected it: {reason}")

    async def _remove_port_row(self, lsi: str, name: str) -> None:
        port = (await self._copy()).ports.get(name)
        if port is not None:
            row = ["uuid", port]
            removed = _mutate("Bridge", [["name", "==", lsi]], "ports", "delete", row)
            await self._configure(f"port {name}", removed)

    def _far_end(self, port: PortSpec) -> str:
        return port.options.get("peer") or device_name(self.settings.prefix, FAR_END, port.name)

    async def _make_pair(self, lsi: str, port: PortSpec) -> None:
        """Makes the pair of a port to the kernel; the row of one that has gone goes, too.

        The switch knows an interface by its own name, so that is the port's.
        """
        place = self._namespace()
        try:
            if port.name not in await asyncio.to_thread(device_names, place):
                await self._remove_port_row(lsi, port.name)
            whole = port.options.get("frames") == "whole"
            far = self._far_end(port)
            await asyncio.to_thread(make_pair, port.name, far, place, whole_frames=whole)
        except (OSError, NetlinkError) as error:
            raise SwitchError(f"port {port.name}: {error}") from error

    async def remove_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        await self._remove_port_row(lsi, port.name)
        if port.kind is PortKind.PATCH:
            await self._remove_port_row(port.options["lsi"], port.options["peer"])
        if port.kind is PortKind.VETH:
            # By either end: where the far one is depends on how far its VNF had come.
            await asyncio.to_thread(remove_device, port.name)
            await asyncio.to_thread(remove_device, self._far_end(port))
        _remove_own_folder(port)

    async def connect_lsis(self, link: LinkSpec) -> None:
        """See SwitchDriver."""
        await self._join(link)

    async def _join(self, link: LinkSpec, number: int | None = None) -> None:
        """Makes a pair of patch ports; the second one asks for `number`."""
        ends = (
            (link.first, link.first_port, link.second_port),
            (link.second, link.second_port, link.first_port),
        )
        operations: list[Row] = []
        for tag, (lsi, name, peer) in enumerate(ends):
            if name in (await self._copy()).ports:
                continue
            operations += self._insert_port(
                name, "patch", {"peer": peer}, {}, str(tag), number if tag else None
            )
            end = named(f"port{tag}")
            operations.append(_mutate("Bridge", [["name", "==", lsi]], "ports", "insert", end))
        if operations:
            await self._configure(f"link {link.first_port}-{link.second_port}", *operations)
        for _, name, _ in ends:
            await self._expect_in_service(name)

    async def disconnect_lsis(self, link: LinkSpec) -> None:
        """See SwitchDriver."""
        await self._remove_port_row(link.first, link.first_port)
        await self._remove_port_row(link.second, link.second_port)

    # LSIs that are VNFs; controllers; queues.

    async def replace_flows(self, lsi: str, flows: Sequence[str]) -> None:
        """See SwitchDriver: by ovs-ofctl, as a bundle."""
        socket = f"unix:{self.directory / f'{lsi}.mgmt'}"
        await ofctl(("--bundle", "replace-flows", socket, "-"), flows)

    async def set_controller(self, lsi: str, address: str | None) -> None:
        """See SwitchDriver: out of band, so that it adds no rules of its own."""
        operations: list[Row] = []
        members: list[object] = []
        if address is not None:
            row = {"target": address, "connection_mode": "out-of-band", "max_backoff": 1000}
            operations.append(
                {"op": "insert", "table": "Controller", "uuid-name": "controller", "row": row}
            )
            members.append(named("controller"))
        operations.append(_update("Bridge", lsi, {"controller": ["set", members]}))
        await self._configure(f"controller of LSI {lsi}", *operations)

    async def add_queue(self, lsi: str, queue: QueueSpec) -> None:
        """See SwitchDriver: a row of Queue; the first of a port makes its row of QoS."""
        rates = {"min-rate": queue.min_rate, "max-rate": queue.max_rate}
        config = as_map({key: str(rate) for key, rate in rates.items() if rate})
        insert: Row = {
            "op": "insert",
            "table": "Queue",
            "uuid-name": "queue",
            "row": {"other_config": config},
        }
        entry: list[object] = ["map", [[queue.number, named("queue")]]]
        async with self._shared:
            await self._remove_queue(queue)
            qos, _ = await self._queues(queue.port)
            more: list[Row]
            if qos is None:
                row: Row = {
                    "type": "linux-htb",
                    "other_config": as_map({"max-rate": str(_LINE_RATE)}),
                    "queues": entry,
                }
                more = [
                    {"op": "insert", "table": "QoS", "uuid-name": "qos", "row": row},
                    _update("Port", queue.port, {"qos": ["set", [named("qos")]]}),
                ]
            else:
                more = [_change_queues(qos, "insert", entry)]
            await self._configure(f"queue {queue.number} of port {queue.port}", insert, *more)

    async def remove_queue(self, lsi: str, queue: QueueSpec) -> None:
        """See SwitchDriver."""
        async with self._shared:
            await self._remove_queue(queue)

    async def _remove_queue(self, queue: QueueSpec) -> None:
        """Removes the queue's row; with a port's last one its row of QoS goes, too."""
        qos, queues = await self._queues(queue.port)
        if qos is None or queue.number not in queues:
            return
        if set(queues) == {queue.number}:
            changes = [_update("Port", queue.port, {"qos": ["set", []]}), _delete("QoS", qos)]
        else:
            changes = [_change_queues(qos, "delete", ["set", [queue.number]])]
        what = f"queue {queue.number} of port {queue.port}"
        await self._configure(what, *changes, _delete("Queue", queues[queue.number]))

    async def _queues(self, port: str) -> tuple[object | None, dict[int, object]]:
        """The row of QoS of a port, and its queues by their numbers."""
        rows = await self._select("Port", ["qos"], [["name", "==", port]])
        members = from_set(rows[0]["qos"]) if rows else []
        if not members:
            return None, {}
        (row,) = await self._select("QoS", ["queues"], [["_uuid", "==", members[0]]])
        return members[0], dict(row["queues"][1])

    # Rules and statistics.

    async def _session(self, lsi: str) -> OpenFlowSession:
        session = self._sessions.get(lsi)
        if session is None or session.closed:
            session = await OpenFlowSession.connect(self.directory / f"{lsi}.mgmt")
            self._sessions[lsi] = session
        return session

    async def _ofports(self) -> dict[str, int]:
        """The numbers of all ports that are in service."""
        rows = (await self._copy()).interfaces.values()
        return {LOCAL: OFPP_LOCAL, **{row.name: row.ofport for row in rows if row.ofport}}

    async def wait_for_links(self, ports: Sequence[PortSpec]) -> None:
        """See SwitchDriver: by what the switch itself says, which drops what it sends before."""
        names = {port.name for port in ports}

        def down(copy: Copy) -> list[str]:
            rows = (copy.interfaces.get(name) for name in names)
            up = {row.name for row in rows if row is not None and row.link == "up"}
            return sorted(names - up)

        database = await self._ovsdb()
        patience_s = patient(LINK_PATIENCE_S)
        try:
            await database.until(lambda copy: not down(copy), patience_s)
        except TimeoutError as error:
            listed = ", ".join(down(database.copy))
            raise SwitchError(f"port {listed}: no link after {patience_s:g} s") from error
        except OvsdbError as error:
            raise SwitchError(f"{self.name}: {error}") from error

    async def missing(self, ports: Collection[str]) -> set[str]:
        """See SwitchDriver: without a row of the database, a number, or the veth pair."""
        rows = (await self._copy()).interfaces
        gone = {name for name in ports if name not in rows or not rows[name].ofport}
        pairs = {name for name in ports if name.startswith(self.settings.prefix)}
        if not pairs:
            return gone
        try:
            return gone | (pairs - await asyncio.to_thread(device_names, self._namespace()))
        except OSError as error:  # the daemon has ended, and its namespace with it
            raise SwitchError(f"{self.name}: {error}") from error

    async def links(self) -> dict[str, bool]:
        """See SwitchDriver."""
        rows = (await self._copy()).interfaces.values()
        return {row.name: row.link == "up" for row in rows if row.link}

    async def install_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver."""
        ofports = {**await self._ofports(), CONTROLLER: OFPP_CONTROLLER}
        for rule in rules:
            for port in (rule.in_port, *rule.outputs):
                if port not in ofports:
                    raise SwitchError(f"{rule.label}: port {port} is not in service on LSI {lsi}")
        await (await self._session(lsi)).install(rules, ofports, self.capabilities.keeps_flows)

    async def remove_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver."""
        if lsi in (await self._copy()).bridges:
            await (await self._session(lsi)).remove(rules, await self._ofports())

    async def rule_statistics(self, lsi: str) -> list[RuleStatistics]:
        """See SwitchDriver."""
        return await (await self._session(lsi)).rule_statistics()

    async def port_statistics(self, lsi: str | None = None) -> list[PortStatistics]:
        """See SwitchDriver."""
        where: list[list[object]] = [] if lsi is None else [["name", "==", lsi]]
        bridges = await self._select("Bridge", ["name", "ports"], where)
        copy = await self._copy()
        names = {uuid: name for name, uuid in copy.ports.items()}
        gate = asyncio.Semaphore(_ASKED_AT_ONCE)

        def numbered(bridge: Row) -> dict[int, str]:
            members = [names.get(str(uuid)) for _, uuid in from_set(bridge["ports"])]
            rows = [copy.interfaces[name] for name in members if name in copy.interfaces]
            return {row.ofport: row.name for row in rows if row.ofport}

        async def of(bridge: str, ports: dict[int, str]) -> list[PortStatistics]:
            async with gate:
                statistics = await (await self._session(bridge)).port_statistics()
            return [
                _port_statistics(bridge, ports[number], counters)
                for number, counters in statistics.items()
                if number in ports and number != _LOCAL_PORT
            ]

        asked = [(str(bridge["name"]), numbered(bridge)) for bridge in bridges]
        found = await asyncio.gather(*(of(name, ports) for name, ports in asked if ports))
        return [row for rows in found for row in rows]

    async def version(self) -> str:
        """See SwitchDriver."""
        columns = ["ovs_version", "dpdk_version"]
        row = (await self._select("Open_vSwitch", columns))[0]
        parts = [str(part) for column in columns for part in from_set(row[column])]
        return f"{self.name} {', '.join(part for part in parts if part and part != 'none')}"

    def attach(self, port: PortSpec) -> Attach:
        """See SwitchDriver."""
        if port.kind in (PortKind.MEMIF, PortKind.VHOST_USER):
            return Attach(devargs=vdev_devargs(port))
        if port.kind in (PortKind.TAP, PortKind.SYSTEM):
            return Attach(iface=port.name)
        if port.kind is PortKind.VETH:
            return Attach(iface=self._far_end(port))
        return Attach()


def _clear_listening_socket(port: PortSpec) -> None:
    """Removes the stale socket of a killed switch, which must listen there; makes its folder."""
    for option in ("socket", "path"):
        if option in port.options:
            Path(port.options[option]).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    if port.kind is PortKind.MEMIF and port.options.get("role", "server") == "server":
        Path(port.options["socket"]).unlink(missing_ok=True)


def _remove_own_folder(port: PortSpec) -> None:
    """Removes the folder of a port's socket if it is the port's alone, which its name says."""
    for option in ("socket", "path"):
        folder = Path(port.options.get(option, "/")).parent
        if folder.name == port.name:
            shutil.rmtree(folder, ignore_errors=True)


def dpdk_options(port: PortSpec) -> dict[str, str]:
    """Options of a `dpdk` interface: `devargs` under OVS's name, all others unchanged."""
    others = {key: value for key, value in port.options.items() if key != "devargs"}
    return {"dpdk-devargs": port.options["devargs"], **others}


def _link_of(lsi: str, port: PortSpec) -> LinkSpec:
    """The link between an LSI and the one that is a VNF, of which `port` is a port."""
    return LinkSpec(
        first=lsi,
        first_port=port.name,
        second=port.options["lsi"],
        second_port=port.options["peer"],
    )


def _update(table: str, name: str, row: Row) -> Row:
    return {"op": "update", "table": table, "where": [["name", "==", name]], "row": row}


def _delete(table: str, row: object) -> Row:
    return {"op": "delete", "table": table, "where": [["_uuid", "==", row]]}


def _change_queues(qos: object, mutator: str, value: list[object]) -> Row:
    return {
        "op": "mutate",
        "table": "QoS",
        "where": [["_uuid", "==", qos]],
        "mutations": [["queues", mutator, value]],
    }


def _mutate(table: str, where: list[list[object]], column: str, mutator: str, value: object) -> Row:
    return {
        "op": "mutate",
        "table": table,
        "where": where,
        "mutations": [[column, mutator, ["set", [value]]]],
    }


def _port_statistics(lsi: str, name: str, counters: object) -> PortStatistics:
    def count(field: str) -> int:
        """A counter; all ones means that the switch does not support it (1.3.5, 7.3.5.6)."""
        value = int(getattr(counters, field))
        return 0 if value == 0xFFFF_FFFF_FFFF_FFFF else value

    return PortStatistics(
        lsi=lsi,
        port=name,
        ofport=count("port_no"),
        **{field: count(field) for field in COUNTERS},
    )


def vhost_options(port: PortSpec) -> dict[str, str]:
    """The options of a vhost-user port; of several queues, as many are polled."""
    queues = {key: value for key, value in port.options.items() if key == "n_rxq"}
    return {"vhost-server-path": port.options["path"], **queues}
