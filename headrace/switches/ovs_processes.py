# SPDX-License-Identifier: Apache-2.0
"""The processes of a switch with Open vSwitch's interfaces: its ovsdb-server and its daemon.

Both have their sockets, database and logs below the node's directory. A running daemon is adopted
with its state; if it has exited, the database is emptied, because the next daemon would otherwise
restore the old contents, which the node does not know.
"""

import asyncio
import os
from collections.abc import Coroutine, Sequence
from pathlib import Path

from headrace.machine.eal import remove_remains
from headrace.machine.processes import ProcessError, ProcessId, Supervisor, make_private
from headrace.switches.base import Capabilities, PortSpec, SwitchCycles, SwitchError, SwitchSettings
from headrace.switches.group_commit import GroupCommit
from headrace.switches.openflow import OpenFlowSession
from headrace.switches.ovsdb import Copy, Ovsdb, OvsdbError, Row, TransactionRefused, as_map
from headrace.switches.veth import BRIDGE_END, FAR_END, TAP_END, remove_devices

OVSDB_SERVER = "/usr/sbin/ovsdb-server"
OVSDB_TOOL = "/usr/bin/ovsdb-tool"
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
DATABASE_PROCESS, DAEMON_PROCESS = "ovsdb-server", "switch"
"""Their names at the supervisor, for the first switch of a node."""

_UNIX_PATH_MAX = 107


class OvsProcesses:
    """OVSDB + OpenFlow; a subclass defines the daemon, its configuration, and reads its cycles."""

    name: str
    capabilities: Capabilities
    waits_for_database = False
    """Whether the daemon may be started before its database is there, and waits for it."""

    def __init__(self, settings: SwitchSettings, supervisor: Supervisor) -> None:
        self.settings = settings
        self.supervisor = supervisor
        self.directory = settings.rundir / settings.named("switch")
        self.daemon_process = settings.named(DAEMON_PROCESS)
        self.database_process = settings.named(DATABASE_PROCESS)
        self._database: Ovsdb | None = None
        self._sessions: dict[str, OpenFlowSession] = {}
        self._connecting = asyncio.Lock()
        self._shared = asyncio.Lock()
        self._is_new = False
        self._changes = GroupCommit(self._change, TransactionRefused)

    # Defined by subclasses.

    def _daemon(self) -> list[str]:
        """The command line of the switch daemon, in the foreground."""
        raise NotImplementedError

    def _cores(self) -> tuple[int, ...]:
        """The cores that the daemon as a whole is held to; none: it places its threads itself."""
        return ()

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

    def _namespace(self) -> str | None:
        """The path of the daemon's network namespace, if it is another than ours."""
        return None

    # Lifecycle.

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
            SwitchError: a program is missing or exited at once; names the package or the log.
        """
        if len(str(self.directory / ("x" * 24))) > _UNIX_PATH_MAX:
            raise SwitchError(
                f"the node's directory {self.settings.rundir} is too long a name for Unix sockets; "
                f"choose one of less than 70 characters with --rundir"
            )
        for program in (OVSDB_SERVER, OVSDB_TOOL, *self._programs()):
            if not os.access(program, os.X_OK):
                raise SwitchError(f"{program} is missing; run `make setup` (setup/packages.txt)")
        make_private(self.directory)
        daemon_ran = self.supervisor.find(self.daemon_process) is not None
        if not daemon_ran:
            # The next daemon would restore what a previous one left in the database, which the node
            # does not know: begin with an empty database.
            await self.supervisor.end(self.database_process)
            for stale in self.directory.iterdir():
                if not stale.is_dir():
                    stale.unlink()
        starting = None
        if not daemon_ran and self.waits_for_database:
            starting = asyncio.create_task(self._launch_daemon())
        try:
            await self._start_database()
        finally:
            if starting is not None:
                await starting
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
                self.database_process,
                command,
                cores=self.settings.control_cores,
                control=True,
                environment=self._environment(),
            )
        except ProcessError as error:
            raise SwitchError(str(error)) from error

    async def _start_daemon(self) -> None:
        database = await self._ovsdb()
        running = self.supervisor.find(self.daemon_process)
        if running is not None and not self._is_new:
            return
        config = {
            "op": "update",
            "table": "Open_vSwitch",
            "where": [],
            "row": {"other_config": as_map(self._other_config())},
        }
        try:
            await database.transact(config)
            process = running or await self._launch_daemon()
        except OvsdbError as error:
            raise SwitchError(f"{self.name}: {error}") from error
        try:
            await self._while_alive(process, database.configure())
        except OvsdbError as error:
            log = self.supervisor.log_of(self.daemon_process)
            raise SwitchError(f"{self.name}: {error}; see {log}") from error
        self._is_new = False

    async def _launch_daemon(self) -> ProcessId:
        try:
            process, self._is_new = await self.supervisor.ensure(
                self.daemon_process,
                self._daemon(),
                cores=self._cores(),
                environment=self._environment(),
            )
        except ProcessError as error:
            raise SwitchError(f"{self.name}: {error}") from error
        return process

    async def _while_alive(self, process: ProcessId, work: Coroutine[None, None, None]) -> None:
        """Runs `work`, which waits for the switch daemon; fails if the daemon exits."""
        task = asyncio.create_task(work)
        while not task.done():
            await asyncio.wait([task], timeout=0.1)
            if not process.alive():
                task.cancel()
                words = self.supervisor.last_words(self.daemon_process)
                raise SwitchError(f"{self.name} has ended: {words}")
        task.result()

    async def stop(self) -> None:
        """See SwitchDriver. A clean exit of the daemon removes its devices."""
        await self.close()
        await self.supervisor.end(self.daemon_process)
        await self.supervisor.end(self.database_process)
        remove_remains(self.settings.named(self.settings.prefix))
        # Veth pairs, whose near ends are named after graphs, and taps with their bridges.
        for end in ("g", FAR_END, BRIDGE_END, TAP_END):
            await asyncio.to_thread(remove_devices, f"{self.settings.prefix}{end}")

    async def close(self) -> None:
        """Closes this driver's connections; the switch keeps running."""
        for session in self._sessions.values():
            await session.close()
        self._sessions.clear()
        if self._database is not None:
            await self._database.close()
            self._database = None

    def processes(self) -> tuple[str, ...]:
        """See SwitchDriver."""
        return (self.daemon_process,)

    def watched(self) -> tuple[str, ...]:
        """See SwitchDriver."""
        return (self.database_process, self.daemon_process)

    async def _ovsdb(self) -> Ovsdb:
        async with self._connecting:
            if self._database is None or not self._database.open:
                try:
                    self._database = await Ovsdb.connect(self.socket)
                except OvsdbError as error:
                    raise SwitchError(f"{self.name}: {error}") from error
            return self._database

    async def _copy(self) -> Copy:
        """What the database has of bridges, ports and interfaces."""
        return (await self._ovsdb()).copy

    async def _configure(self, what: str, *operations: Row) -> None:
        if self.supervisor.find(self.daemon_process) is None:
            raise SwitchError(f"{what}: {self.name} has ended; the node will start it again")
        try:
            await self._changes.add(operations)
        except OvsdbError as error:
            raise SwitchError(f"{what}: {error}") from error

    async def _change(self, operations: Sequence[Row]) -> None:
        process = self.supervisor.find(self.daemon_process)
        if process is None:
            raise SwitchError(f"{self.name} has ended; the node will start it again")
        database = await self._ovsdb()
        await self._while_alive(process, database.configure(*operations))

    async def _select(
        self, table: str, columns: list[str], where: list[list[object]] | None = None
    ) -> list[Row]:
        try:
            return await (await self._ovsdb()).select(table, columns, where)
        except OvsdbError as error:
            raise SwitchError(f"{self.name}: {error}") from error
