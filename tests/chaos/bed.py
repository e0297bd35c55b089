# SPDX-License-Identifier: Apache-2.0
"""The node of a chaos run: its state on a small file system, its clock in our hands."""

import asyncio
import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx

from headrace.bench.errors import DeviceError
from headrace.bench.lifecycle.bed import Bed
from headrace.bench.owned import owned
from headrace.node import daemon
from headrace.node.config import from_dict
from headrace.node.parts import prefix_of

_START_S = 60.0
_DISK_MB = 24


class ChaosBed(Bed):
    """See Bed; the node is started so that its clock can be stepped."""

    def __init__(self) -> None:
        super().__init__(memory_mb=4000, idle="yield")
        self.statedir = self.rundir.with_name(f"{self.rundir.name}-state")
        self.offset = self.rundir.with_name(f"{self.rundir.name}-clock")
        self.offset.write_text("0")
        self.statedir.mkdir(mode=0o700)
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MB}m,mode=700", "chaos", self.statedir],
            check=True,
        )
        self._node: subprocess.Popen[bytes] | None = None

    async def up(self) -> float:
        """Starts the node's process as `headrace up` does; the seconds until it answers."""
        await self._make_pairs()
        daemon.prepare(self.rundir, self.statedir)
        config = from_dict(self.config)
        (self.rundir / "node-config.json").write_text(config.model_dump_json())
        begin = time.monotonic()
        program = str(Path(__file__).with_name("node_with_clock.py"))
        with (self.rundir / "chaos-node.log").open("ab") as log:
            self._node = subprocess.Popen(  # noqa: ASYNC220
                [sys.executable, program, str(self.rundir), str(self.offset)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        while time.monotonic() < begin + _START_S:
            if self._node.poll() is not None:
                break
            said = daemon.running(self.rundir)
            if said is not None and said["pid"] == self._node.pid:
                with contextlib.suppress(httpx.HTTPError):
                    (await self._http.get("/node")).raise_for_status()
                    return time.monotonic() - begin
            await asyncio.sleep(0.02)
        words = (self.rundir / "chaos-node.log").read_text(errors="replace")[-2000:]
        raise DeviceError(f"the node does not start: {words}")

    def alive(self) -> bool:
        """Whether the node's own process runs."""
        return self._node is not None and self._node.poll() is None

    async def kill_node(self) -> None:
        """SIGKILL of the node's own process."""
        if self._node is not None:
            self._node.send_signal(signal.SIGKILL)
            await asyncio.to_thread(self._node.wait)

    async def down(self) -> None:
        """Ends the node and all of its, and removes its file system."""
        try:
            if self._node is not None and self._node.poll() is None:
                self._node.terminate()
                await asyncio.to_thread(self._node.wait)
            await super().down()
        finally:
            subprocess.run(["umount", "--lazy", self.statedir], check=False)  # noqa: ASYNC221
            self.statedir.rmdir()
            self.offset.unlink()

    # Faults.

    @contextlib.contextmanager
    def disk_full(self) -> Iterator[None]:
        """Nothing more can be written where the node has its state."""
        file = self.statedir / "filler"
        with contextlib.suppress(OSError), file.open("wb", buffering=0) as filler:
            while True:
                filler.write(bytes(1 << 16))
        try:
            yield
        finally:
            file.unlink(missing_ok=True)

    @contextlib.contextmanager
    def database_locked(self) -> Iterator[None]:
        """Another program holds the node's database."""
        other = sqlite3.connect(self.statedir / "node.sqlite", timeout=5, isolation_level=None)
        try:
            with contextlib.suppress(sqlite3.OperationalError):  # the node writes all the time
                other.execute("BEGIN IMMEDIATE")
            yield
        finally:
            other.close()

    def step_clock(self, seconds: float) -> None:
        """From now on the node's wall clock is off by so much."""
        self.offset.write_text(str(seconds))

    # What is there.

    def _rows(self, query: str) -> list[tuple[Any, ...]]:
        file = f"file:{self.statedir / 'node.sqlite'}?mode=ro"
        with contextlib.closing(sqlite3.connect(file, uri=True, timeout=5)) as database:
            return database.execute(query).fetchall()

    def on_record(self) -> tuple[set[str], dict[str, set[str]]]:
        """The graphs of the database, and what its steps say is there, by kind of resource."""
        graphs = {str(row[0]) for row in self._rows("SELECT id FROM graph")}
        there: dict[str, set[str]] = {"lsi": set(), "port": set(), "rule": set(), "vnf": set()}
        for content, state in self._rows("SELECT content, state FROM step"):
            resource = json.loads(content)
            assert state == "done", (state, content)
            if resource["kind"] == "lsi":
                there["lsi"].add(resource["lsi"])
            elif resource["kind"] == "port":
                there["port"].add(resource["port"]["name"])
            elif resource["kind"] == "link":
                there["port"] |= {resource["link"]["first_port"], resource["link"]["second_port"]}
            elif resource["kind"] == "vnf":
                there["vnf"].add(f"vnf-{resource['vnf']['name']}")
            elif resource["kind"] == "rule":
                rule = resource["rule"]
                there["rule"].add(f"{rule['lsi']} {rule['priority']} {rule['in_port']}")
        return graphs, there

    def owners(self) -> set[str]:
        """The graphs that the database has owners of."""
        return {str(row[0]) for row in self._rows("SELECT graph FROM owner")}

    def in_switch(self) -> dict[str, set[str]]:
        """What the switch and its database have, by kind; rules as `on_record` writes them."""
        lsis = set(self._vsctl("list-br").split())
        ports: set[str] = set()
        rules: set[str] = set()
        for lsi in lsis:
            own = set(self._vsctl("list-ports", lsi).split())
            ports |= own
            numbers = {
                self._vsctl("get", "Interface", port, "ofport").strip(): port for port in own
            }
            dump = subprocess.run(
                ["ovs-ofctl", "-O", "OpenFlow13", "--no-names", "dump-flows",
                 f"unix:{self.rundir}/switch/{lsi}.mgmt"],
                check=True, capture_output=True, text=True,
            ).stdout  # fmt: skip
            for line in dump.splitlines():
                if "priority=" in line or "actions=" in line:
                    match = line.split()[-2] if "actions=" in line else line
                    fields = dict(
                        part.split("=", 1) for part in match.strip(",").split(",") if "=" in part
                    )
                    port = numbers.get(fields.get("in_port", ""), fields.get("in_port", "?"))
                    rules.add(f"{lsi} {fields.get('priority', '32768')} {port}")
        return {"lsi": lsis, "port": ports, "rule": rules, "vnf": set(self._running())}

    def _vsctl(self, *words: str) -> str:
        database = f"--db=unix:{self.rundir}/switch/db.sock"
        return subprocess.run(
            ["ovs-vsctl", database, *words], check=True, capture_output=True, text=True
        ).stdout

    def _running(self) -> Iterator[str]:
        for pid in owned(self.rundir):
            with contextlib.suppress(OSError):
                environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
                for variable in environment:
                    if variable.startswith(b"HEADRACE_OWNER="):
                        name = variable.partition(b"#")[2].decode()
                        if name.startswith("vnf-"):
                            yield name

    def left_of_graphs(self) -> dict[str, list[str]]:
        """What is on the machine of graphs, of which there are none any more."""
        prefix = prefix_of(self.rundir)
        found: dict[str, list[str]] = {}

        def note(kind: str, names: Iterator[str] | list[str]) -> None:
            listed = sorted(names)
            if listed:
                found[kind] = listed

        there = self.in_switch()
        note("LSIs", [lsi for lsi in there["lsi"] if lsi != f"{prefix}-0"])
        note("ports", [p for p in there["port"] if p not in {n for n, _ in self.pairs.values()}])
        note("rules", list(there["rule"]))
        note("processes", list(there["vnf"]))
        note("namespaces", [n for n in os.listdir("/run/netns") if n.startswith(f"{prefix}-")]
             if Path("/run/netns").is_dir() else [])  # fmt: skip
        note(
            "interfaces",
            [
                n
                for n in os.listdir("/sys/class/net")
                if n.startswith(prefix) and n != f"{prefix}-0"
            ],
        )
        for kind, folder in (("files of VNFs", "vnf"), ("bundles", "bundles")):
            place = self.rundir / folder
            note(kind, [p.name for p in place.iterdir()] if place.is_dir() else [])
        ports = self.rundir / "ports"
        note("sockets", [p.name for p in ports.iterdir()] if ports.is_dir() else [])
        pids = self.rundir / "pids"
        note("pid files", [p.stem for p in pids.glob("*.json") if p.stem.startswith("vnf-")])
        mounts = Path("/proc/self/mounts").read_text()
        note("mounts", [line for line in mounts.splitlines() if f"{self.rundir}/" in line])
        note("cgroups", list(self._cgroups()))
        graphs, _ = self.on_record()
        note("graphs on record", list(graphs))
        note("owners on record", list(self.owners()))
        return found

    def _cgroups(self) -> Iterator[str]:
        from headrace.engines.confinement import Confinement
        from headrace.machine.cgroups import Group

        for place in Group(Confinement(self.rundir).parent).places():
            if place.is_dir():
                yield from (str(p) for p in place.iterdir() if p.is_dir())


def hugepage_files(rundir: Path) -> list[str]:
    """Files of hugetlbfs that a node of this directory, or a VNF, has left there.

    The free pages of the machine would say more, but others use them, too.
    """
    marks = (prefix_of(rundir), "hrvnf")
    place = Path("/dev/hugepages")
    return [file.name for file in place.iterdir() if file.name.startswith(marks)]
