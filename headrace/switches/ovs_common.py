# SPDX-License-Identifier: Apache-2.0
"""The driver of every switch that looks like Open vSwitch from outside: OVSDB and OpenFlow 1.3.

It runs its own ovsdb-server with the stock schema and its own switch daemon, both with sockets,
database and logs below the node's directory, so a system Open vSwitch is never touched. Subclasses
name the daemon and say how it is configured; nothing else differs.

Rows made here carry `external_ids:headrace`, and names come from the node, so every operation can
look whether its work is already done: that makes it repeatable after a crash.
"""

import asyncio
import os
from collections.abc import Coroutine, Sequence
from pathlib import Path

from headrace.eal import remove_remains
from headrace.processes import ProcessError, ProcessId, Supervisor
from headrace.switches.base import (
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
    vdev_devargs,
)
from headrace.switches.openflow import OpenFlowSession
from headrace.switches.ovsdb import Ovsdb, OvsdbError, Row, as_map, from_map, from_set, named
from headrace.switches.rules import Rule

OVSDB_SERVER = "/usr/sbin/ovsdb-server"
OVSDB_TOOL = "/usr/bin/ovsdb-tool"
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
DATABASE_PROCESS, DAEMON_PROCESS = "ovsdb-server", "switch"
_LOCAL_PORT = 65534  # OpenFlow's LOCAL as OVS numbers it
_UNIX_PATH_MAX = 107


class OvsFamilyDriver:
    """OVSDB + OpenFlow; a subclass names the daemon, its configuration, and reads its cycles."""

    name: str
    capabilities: Capabilities
    datapath_type = "netdev"

    def __init__(self, settings: SwitchSettings, supervisor: Supervisor) -> None:
        self.settings = settings
        self.supervisor = supervisor
        self.directory = settings.rundir / "switch"
        self._database: Ovsdb | None = None
        self._sessions: dict[str, OpenFlowSession] = {}
        self._connecting = asyncio.Lock()

    # What subclasses say.

    def _daemon(self) -> list[str]:
        """The command line of the switch daemon, in the foreground."""
        raise NotImplementedError

    def _programs(self) -> list[str]:
        """The programs that the daemon needs."""
        return self._daemon()[:1]

    def _other_config(self) -> dict[str, str]:
        """Open_vSwitch.other_config, set before the daemon starts."""
        raise NotImplementedError

    def _interface(self, port: PortSpec) -> tuple[str, dict[str, str]]:
        """Type and options of the Interface row of a port."""
        raise NotImplementedError

    async def cycles(self) -> SwitchCycles:
        """See SwitchDriver."""
        raise NotImplementedError

    # Life.

    @property
    def socket(self) -> Path:
        """The socket of ovsdb-server, for ovs-vsctl --db=unix:..."""
        return self.directory / "db.sock"

    def _environment(self) -> dict[str, str]:
        here = str(self.directory)
        return {"OVS_RUNDIR": here, "OVS_DBDIR": here, "OVS_SYSCONFDIR": here, "OVS_LOGDIR": here}

    async def start(self) -> bool:
        """See SwitchDriver.

        Raises:
            SwitchError: a program is missing or ended at once; names the package or the log.
        """
        if len(str(self.directory / ("x" * 24))) > _UNIX_PATH_MAX:
            raise SwitchError(
                f"the node's directory {self.settings.rundir} is too long a name for Unix sockets; "
                f"choose one of less than 70 characters with --rundir"
            )
        for program in (OVSDB_SERVER, OVSDB_TOOL, *self._programs()):
            if not os.access(program, os.X_OK):
                raise SwitchError(f"{program} is missing; run `make setup` (setup/packages.txt)")
        self.directory.mkdir(parents=True, exist_ok=True)
        daemon_ran = self.supervisor.find(DAEMON_PROCESS) is not None
        if not daemon_ran:
            # What a dead daemon left in the database would be taken up by the next one, out of the
            # node's sight: begin with an empty database.
            await self.supervisor.end(DATABASE_PROCESS)
            for stale in self.directory.iterdir():
                if not stale.is_dir():
                    stale.unlink()
        await self._start_database()
        await self._start_daemon()
        return daemon_ran

    async def _start_database(self) -> None:
        database = self.directory / "conf.db"
        if not database.exists():
            tool = await asyncio.create_subprocess_exec(
                OVSDB_TOOL, "create", str(database), str(SCHEMA), stderr=asyncio.subprocess.PIPE
            )
            _, errors = await tool.communicate()
            if tool.returncode:
                raise SwitchError(f"ovsdb-tool: {errors.decode().strip()}")
        command = [
            OVSDB_SERVER,
            str(database),
            f"--remote=punix:{self.socket}",
            f"--unixctl={self.directory / 'ovsdb.ctl'}",
            "--verbose=console:warn",
            "--verbose=syslog:off",
        ]
        try:
            await self.supervisor.ensure(
                DATABASE_PROCESS,
                command,
                cores=self.settings.control_cores,
                environment=self._environment(),
            )
        except ProcessError as error:
            raise SwitchError(str(error)) from error

    async def _start_daemon(self) -> None:
        database = await self._ovsdb()
        if self.supervisor.find(DAEMON_PROCESS) is not None:
            return
        config = {
            "op": "update",
            "table": "Open_vSwitch",
            "where": [],
            "row": {"other_config": as_map(self._other_config())},
        }
        try:
            await database.transact(config)
            process, _ = await self.supervisor.ensure(
                DAEMON_PROCESS, self._daemon(), environment=self._environment()
            )
        except (OvsdbError, ProcessError) as error:
            raise SwitchError(f"{self.name}: {error}") from error
        try:
            await self._while_alive(process, database.configure())
        except OvsdbError as error:
            log = self.supervisor.log_of(DAEMON_PROCESS)
            raise SwitchError(f"{self.name}: {error}; see {log}") from error

    async def _while_alive(self, process: ProcessId, work: Coroutine[None, None, None]) -> None:
        """Does `work`, which waits for the switch daemon, but no longer than the daemon lives."""
        task = asyncio.create_task(work)
        while not task.done():
            await asyncio.wait([task], timeout=0.1)
            if not process.alive():
                task.cancel()
                words = self.supervisor.last_words(DAEMON_PROCESS)
                raise SwitchError(f"{self.name} has ended: {words}")
        task.result()

    async def stop(self) -> None:
        """See SwitchDriver. A clean exit of the daemon removes its devices."""
        await self.close()
        await self.supervisor.end(DAEMON_PROCESS)
        await self.supervisor.end(DATABASE_PROCESS)
        remove_remains(self.settings.prefix)

    async def close(self) -> None:
        """Closes this driver's connections; the switch goes on."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()
        if self._database is not None:
            await self._database.close()
            self._database = None

    def processes(self) -> tuple[str, ...]:
        """See SwitchDriver."""
        return (DAEMON_PROCESS,)

    async def _ovsdb(self) -> Ovsdb:
        async with self._connecting:
            if self._database is None or not self._database.open:
                try:
                    self._database = await Ovsdb.connect(self.socket)
                except OvsdbError as error:
                    raise SwitchError(f"{self.name}: {error}") from error
            return self._database

    async def _configure(self, what: str, *operations: Row) -> None:
        process = self.supervisor.find(DAEMON_PROCESS)
        if process is None:
            raise SwitchError(f"{what}: {self.name} has ended; the node will start it again")
        try:
            database = await self._ovsdb()
            await self._while_alive(process, database.configure(*operations))
        except OvsdbError as error:
            raise SwitchError(f"{what}: {error}") from error

    async def _select(
        self, table: str, columns: list[str], where: list[list[object]] | None = None
    ) -> list[Row]:
        try:
            return await (await self._ovsdb()).select(table, columns, where)
        except OvsdbError as error:
            raise SwitchError(f"{self.name}: {error}") from error

    # LSIs, ports, links.

    async def create_lsi(self, lsi: str) -> None:
        """See SwitchDriver: a bridge in fail mode secure, empty of rules."""
        if await self._select("Bridge", ["_uuid"], [["name", "==", lsi]]):
            return
        await self._configure(
            f"LSI {lsi}",
            *self._insert_port(lsi, "internal", {}, {}),
            {
                "op": "insert",
                "table": "Bridge",
                "uuid-name": "bridge",
                "row": {
                    "name": lsi,
                    "datapath_type": self.datapath_type,
                    "fail_mode": "secure",
                    "protocols": "OpenFlow13",
                    "ports": named("port"),
                    "external_ids": as_map({"headrace": "lsi"}),
                },
            },
            _mutate("Open_vSwitch", [], "bridges", "insert", named("bridge")),
        )

    @staticmethod
    def _insert_port(
        name: str, kind: str, options: dict[str, str], labels: dict[str, str], tag: str = ""
    ) -> list[Row]:
        interface = {
            "name": name,
            "type": kind,
            "options": as_map(options),
            "external_ids": as_map({"headrace": "port", **labels}),
        }
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
        bridges = await self._select("Bridge", ["_uuid"], [["name", "==", lsi]])
        for bridge in bridges:
            await self._configure(
                f"LSI {lsi}", _mutate("Open_vSwitch", [], "bridges", "delete", bridge["_uuid"])
            )

    async def add_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        if port.kind not in self.capabilities.port_kinds:
            kinds = ", ".join(self.capabilities.port_kinds)
            raise SwitchError(
                f"port {port.name}: {self.name} has no {port.kind} ports, only {kinds}"
            )
        kind, options = self._interface(port)
        if not await self._select("Port", ["_uuid"], [["name", "==", port.name]]):
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
        rows = await self._select("Interface", ["ofport", "error"], [["name", "==", name]])
        if not rows:
            raise SwitchError(f"port {name}: it is gone from the database")
        if not any(number > 0 for number in from_set(rows[0]["ofport"])):
            reason = " ".join(map(str, from_set(rows[0]["error"]))) or "no reason given"
            raise SwitchError(f"port {name}: the switch refused it: {reason}")

    async def _remove_port_row(self, lsi: str, name: str) -> None:
        for row in await self._select("Port", ["_uuid"], [["name", "==", name]]):
            removed = _mutate("Bridge", [["name", "==", lsi]], "ports", "delete", row["_uuid"])
            await self._configure(f"port {name}", removed)

    async def remove_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        await self._remove_port_row(lsi, port.name)

    async def connect_lsis(self, link: LinkSpec) -> None:
        """See SwitchDriver."""
        ends = (
            (link.first, link.first_port, link.second_port),
            (link.second, link.second_port, link.first_port),
        )
        operations: list[Row] = []
        for tag, (lsi, name, peer) in enumerate(ends):
            if await self._select("Port", ["_uuid"], [["name", "==", name]]):
                continue
            operations += self._insert_port(name, "patch", {"peer": peer}, {}, str(tag))
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

    # Rules and statistics.

    async def _session(self, lsi: str) -> OpenFlowSession:
        session = self._sessions.get(lsi)
        if session is None or session.closed:
            session = await OpenFlowSession.connect(self.directory / f"{lsi}.mgmt")
            self._sessions[lsi] = session
        return session

    async def _ofports(self) -> dict[str, int]:
        rows = await self._select("Interface", ["name", "ofport"])
        found = {}
        for row in rows:
            for number in from_set(row["ofport"]):
                if number > 0:
                    found[row["name"]] = number
        return found

    async def install_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver."""
        ofports = await self._ofports()
        for rule in rules:
            for port in (rule.in_port, *rule.outputs):
                if port not in ofports:
                    raise SwitchError(f"{rule.label}: port {port} is not in service on LSI {lsi}")
        await (await self._session(lsi)).install(rules, ofports)

    async def remove_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver."""
        if await self._select("Bridge", ["_uuid"], [["name", "==", lsi]]):
            await (await self._session(lsi)).remove(rules)

    async def rule_statistics(self, lsi: str) -> list[RuleStatistics]:
        """See SwitchDriver."""
        return await (await self._session(lsi)).rule_statistics()

    async def port_statistics(self) -> list[PortStatistics]:
        """See SwitchDriver."""
        names: dict[str, dict[int, str]] = {}
        rows = await self._select("Port", ["_uuid", "name"])
        ports = {str(row["_uuid"]): row["name"] for row in rows}
        ofports = await self._ofports()
        for bridge in await self._select("Bridge", ["name", "ports"]):
            members = [ports.get(str(member)) for member in from_set(bridge["ports"])]
            names[bridge["name"]] = {
                ofports[name]: name for name in members if name is not None and name in ofports
            }
        found = []
        for lsi, numbered in names.items():
            statistics = await (await self._session(lsi)).port_statistics()
            for number, counters in statistics.items():
                if number in numbered and number != _LOCAL_PORT:
                    found.append(_port_statistics(lsi, numbered[number], counters))
        return found

    async def version(self) -> str:
        """See SwitchDriver."""
        columns = ["ovs_version", "dpdk_version"]
        row = (await self._select("Open_vSwitch", columns))[0]
        parts = [str(part) for column in columns for part in from_set(row[column])]
        return f"{self.name} {', '.join(part for part in parts if part and part != 'none')}"

    async def interface_status(self, name: str) -> dict[str, str]:
        """The status map that the switch reports for a port."""
        rows = await self._select("Interface", ["status"], [["name", "==", name]])
        return from_map(rows[0]["status"]) if rows else {}

    def attach(self, port: PortSpec) -> Attach:
        """See SwitchDriver."""
        if port.kind in (PortKind.MEMIF, PortKind.VHOST_USER):
            return Attach(devargs=vdev_devargs(port))
        if port.kind in (PortKind.TAP, PortKind.SYSTEM):
            return Attach(iface=port.name)
        return Attach()


def _clear_listening_socket(port: PortSpec) -> None:
    """Removes the socket that a killed switch left where it will listen again."""
    if port.kind is PortKind.MEMIF and port.options.get("role", "server") == "server":
        Path(port.options["socket"]).unlink(missing_ok=True)


def dpdk_options(port: PortSpec) -> dict[str, str]:
    """Options of a `dpdk` interface: `devargs` under OVS's name, all others as they are."""
    others = {key: value for key, value in port.options.items() if key != "devargs"}
    return {"dpdk-devargs": port.options["devargs"], **others}


def _mutate(table: str, where: list[list[object]], column: str, mutator: str, value: object) -> Row:
    return {
        "op": "mutate",
        "table": table,
        "where": where,
        "mutations": [[column, mutator, ["set", [value]]]],
    }


def _port_statistics(lsi: str, name: str, counters: object) -> PortStatistics:
    def count(field: str) -> int:
        """A counter; all ones means that the switch does not have it (1.3.5, 7.3.5.6)."""
        value = int(getattr(counters, field))
        return 0 if value == 0xFFFF_FFFF_FFFF_FFFF else value

    return PortStatistics(
        lsi=lsi,
        port=name,
        ofport=count("port_no"),
        **{
            field: count(field)
            for field in (
                "rx_packets",
                "tx_packets",
                "rx_bytes",
                "tx_bytes",
                "rx_dropped",
                "tx_dropped",
            )
        },
    )
