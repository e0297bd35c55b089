# SPDX-License-Identifier: Apache-2.0
"""A whole switch for tests: a stock ovsdb-server with the stock schema, and headrace-switch.

Everything is in a directory of its own with names of its own, so that runs do not meet.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headrace.machine.programs import find_program
from headrace.protocols.control import call
from tests.support.daemon import Daemon

_numbers = itertools.count()

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")


def unique_bridge() -> str:
    """A name for a bridge: its LOCAL port becomes a kernel interface, unique on the machine."""
    return f"hr{os.getpid() % 100000}{next(_numbers):x}b"


class Switch:
    """One ovsdb-server and one headrace-switch; `rundir` has all their sockets and logs."""

    def __init__(
        self,
        rundir: Path,
        *,
        memory_mb: int = 128,
        extra: tuple[str, ...] = (),
        db: str | None = None,
    ) -> None:
        self.rundir = rundir
        self.database = rundir / "db.sock"
        self._db = db or f"unix:{self.database}"
        self.control = rundir / "headrace-switch.ctl"
        self._extra = extra
        self._memory_mb = memory_mb
        self._server: Daemon | None = None
        self.process: Daemon | None = None

    def start(self) -> None:
        """Starts both, and returns when the switch has the database's lock."""
        run("ovsdb-tool", "create", self.rundir / "conf.db", SCHEMA)
        self._start_database()
        self.vsctl("--no-wait", "init")
        self.start_switch()

    def _start_database(self) -> None:
        self._server = Daemon(
            [
                _sbin("ovsdb-server"),
                f"--remote=punix:{self.database}",
                "--no-chdir",
                f"--unixctl={self.rundir}/ovsdb.ctl",
                self.rundir / "conf.db",
            ],
            self.rundir / "ovsdb-server.log",
        )
        self._server.wait_until(self.database.exists)

    def restart_database(self) -> None:
        """Ends the ovsdb-server, which the switch has to find again, and starts it anew."""
        assert self._server is not None
        self._server.stop()
        self.database.unlink(missing_ok=True)
        self._start_database()

    def start_switch(self) -> None:
        """Starts headrace-switch alone (again)."""
        self.process = Daemon(
            [
                find_program("headrace-switch"),
                "--db",
                self._db,
                "--rundir",
                self.rundir,
                "--mem",
                str(self._memory_mb),
                *self._extra,
            ],
            self.rundir / "switch.log",
        )
        self.process.wait_until(lambda: self.control.exists() and self._initialized())

    def _initialized(self) -> bool:
        return self.vsctl("--no-wait", "get", "Open_vSwitch", ".", "dpdk_initialized") == "true"

    def stop_switch(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ends headrace-switch alone; its exit code."""
        assert self.process is not None
        code = self.process.stop(how)
        self.process = None
        if how is signal.SIGTERM:
            return code
        # It could not say that it left.
        self.vsctl("--no-wait", "set", "Open_vSwitch", ".", "dpdk_initialized=false")
        self.control.unlink(missing_ok=True)
        return code

    def stop(self) -> None:
        """Ends both; the switch must leave cleanly."""
        try:
            if self.process is not None:
                code = self.process.stop()
                log = self.process.log_tail()
                self.process = None
                assert code == 0, f"headrace-switch ended with {code}:\n{log}"
        finally:
            if self._server is not None:
                self._server.stop()

    def vsctl(self, *words: str | int | Path) -> str:
        """Runs ovs-vsctl on this database; its output."""
        return run("ovs-vsctl", f"--db=unix:{self.database}", "--timeout=15", *words)

    def ofctl(self, command: str, bridge: str, *words: str | int | Path) -> str:
        """Runs `ovs-ofctl -O OpenFlow13 COMMAND <the bridge's socket> ...`; its output."""
        return run(
            "ovs-ofctl",
            "-O",
            "OpenFlow13",
            "--timeout=15",
            command,
            f"unix:{self.rundir}/{bridge}.mgmt",
            *words,
        )

    def call(self, method: str, **params: Any) -> Any:
        """Calls a method of the switch's control socket."""
        return asyncio.run(call(self.control, method, params))

    def port(self, name: str) -> dict[str, Any]:
        """What `show` says about a port."""
        for lsi in self.call("show")["lsis"]:
            for port in lsi["ports"]:
                if port["name"] == name:
                    return dict(port)
        raise KeyError(name)

    def interface(self, name: str, column: str) -> Any:
        """A column of an Interface row, as JSON."""
        text = self.vsctl("--format=json", f"--columns={column}", "list", "Interface", name)
        return json.loads(text)["data"][0][0]


@contextmanager
def running_switch(rundir: Path, **options: Any) -> Iterator[Switch]:
    """A started switch, stopped at the end."""
    switch = Switch(rundir, **options)
    try:
        switch.start()
        yield switch
    finally:
        switch.stop()


def run(program: str, *words: str | int | Path) -> str:
    """Runs a program to its end and returns its output; fails with what it said."""
    done = subprocess.run(
        [_sbin(program), *map(str, words)], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, f"{program} {' '.join(map(str, words))}:\n{done.stderr}"
    return done.stdout.strip()


def _sbin(program: str) -> str:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    found = shutil.which(program, path=path)
    assert found is not None, f"{program} is not installed"
    return found
