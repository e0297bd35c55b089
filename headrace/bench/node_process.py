# SPDX-License-Identifier: Apache-2.0
"""Starts and stops a node for a subject with the commands that an operator would use.

Each node has its own folder (sockets, logs, database) and REST port, so that several run side by
side; the bench stops (SIGSTOP) those that are not measured.
"""

import asyncio
import contextlib
import os
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from headrace.bench.core_plan import CorePlan
from headrace.bench.errors import DeviceError
from headrace.bench.node_client import NodeClient
from headrace.bench.owned import end_owned
from headrace.bench.peers import frames
from headrace.bench.peers.bed import flow_source
from headrace.bench.peers.systems import PeerError
from headrace.bench.subject import DRIVERS, IN_PROCESS, Subject
from headrace.bench.templates import memory_of, write_templates
from headrace.machine.patience import patient
from headrace.machine.programs import ProgramMissing, find_program

START_S = 60.0
SWITCH_MB, LEAST_MB = 256, 640
DOWN_S = 90.0
PORTS = ("in0", "out0")
"""Names of the two physical ports: traffic enters by the first and leaves by the second."""
SOURCE = "net_null_source"
SOURCE_DEVICE, SINK_DEVICE = f"{SOURCE},size=60", "net_null_sink,no-rx=1"


def node_config(
    subject: Subject,
    plan: CorePlan,
    rest_port: int,
    plugin: Path | None = None,
    most_vnfs: int = 0,
) -> dict[str, Any]:
    """The node.yaml of a subject's node; `plugin` is the flow source's.

    It has memory for `most_vnfs` VNFs.

    Raises:
        DeviceError: the bench starts no such switch.
    """
    if subject.switch not in DRIVERS:
        raise DeviceError(f"the bench starts no node with {subject.switch}")
    driver, options = DRIVERS[subject.switch]
    return {
        "name": subject.node,
        "switch": driver,
        "switch_options": options,
        "rest": {"host": "127.0.0.1", "port": rest_port},
        "cores": {"control": plan.control, "switch": plan.switch, "vnf": plan.vnf},
        "memory_mb": max(LEAST_MB, SWITCH_MB + (1 + most_vnfs) * memory_of(subject)),
        "switch_memory_mb": SWITCH_MB,
        "oversubscribe": True,
        "idle": "yield",  # sleeps would be part of what is measured
        "vnf_ports": subject.inner_ports,
        "ports": _ports(subject),
        "dpdk_plugins": [] if plugin is None else [str(plugin)],
    }


def _ports(subject: Subject) -> list[dict[str, Any]]:
    inside = (
        {"kind": "dpdk", "options": {"devargs": SOURCE_DEVICE}},
        {"kind": "dpdk", "options": {"devargs": SINK_DEVICE}},
    )
    own: list[dict[str, Any]] = [{"kind": subject.ports}, {"kind": subject.ports}]
    if subject.ports == IN_PROCESS:
        own = list(inside)
    elif subject.sink == IN_PROCESS:
        own[1] = inside[1]
    return [{"name": name, **port} for name, port in zip(PORTS, own, strict=True)]


def free_port() -> int:
    """A currently free TCP port of the loopback interface."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run_folder() -> Path:
    """A new folder with a path short enough for Unix sockets (108 bytes)."""
    home = "/run" if os.access("/run", os.W_OK) else None
    return Path(tempfile.mkdtemp(prefix="hrb-", dir=home))


class NodeProcess:
    """One node, from `up` to `down`.

    Args:
        subject: the switch and ports that it runs.
        plan: its cores.
        folder: creates the node's folder.
        settings: keys of node.yaml besides.
        vnfs: all subjects that it runs: those whose VNFs need templates of their own.
        most_vnfs: of a graph.
    """

    def __init__(
        self,
        subject: Subject,
        plan: CorePlan,
        folder: Callable[[], Path] = run_folder,
        settings: Mapping[str, Any] | None = None,
        vnfs: Sequence[Subject] = (),
        most_vnfs: int = 0,
    ) -> None:
        self.subject = subject
        self.rundir = folder()
        port = free_port()
        self.flows: Path | None = None
        plugin: Path | None = None
        if IN_PROCESS in (subject.ports, subject.sink):
            # DPDK refuses plugins below folders that anyone may write.
            plugin = self.rundir / "flowsource.so"
            self.flows = self.rundir / "flows"
        self._plugin = plugin
        self._vnfs = vnfs
        self._config = {**node_config(subject, plan, port, plugin, most_vnfs), **(settings or {})}
        self.client = NodeClient(f"http://127.0.0.1:{port}")
        self._process: asyncio.subprocess.Process | None = None

    @property
    def rundirs(self) -> list[Path]:
        """The folders of the node's processes."""
        return [self.rundir]

    def set_ports(self, ports: list[dict[str, Any]]) -> None:
        """Gives it other physical ports, before `up`."""
        self._config["ports"] = ports

    @staticmethod
    def _command() -> str:
        return str(Path(sys.executable).with_name("headrace"))

    async def up(self) -> dict[str, Any]:
        """Starts the node and waits until it answers; returns its information.

        Raises:
            DeviceError: it did not start; the message includes the end of its log.
        """
        environment = dict(os.environ)
        if self._plugin is not None and self.flows is not None:
            self._plugin.write_bytes(_flow_source().read_bytes())
            self.flows.mkdir()
            # Without a file the device would make packets of its own, as fast as it is polled.
            frames.close(self.flows / f"{SOURCE}.frames")
            environment["HEADRACE_FLOW_DIR"] = str(self.flows)
        config = self.rundir / "bench-node.yaml"
        written = write_templates(self._vnfs, self.rundir / "bench-templates")
        templates = [*self._config.get("templates", []), *written]
        config.write_text(yaml.safe_dump({**self._config, "templates": templates}))
        log = self.rundir / "bench-node.log"
        with log.open("wb") as stream:
            self._process = await asyncio.create_subprocess_exec(
                self._command(), "up", "--config", str(config), "--rundir", str(self.rundir),
                "--foreground", stdin=asyncio.subprocess.DEVNULL, stdout=stream, stderr=stream,
                start_new_session=True, env=environment,
            )  # fmt: skip
        waiting = asyncio.create_task(self.client.wait_up(patient(START_S)))
        ending = asyncio.create_task(self._process.wait())
        try:
            await asyncio.wait({waiting, ending}, return_when=asyncio.FIRST_COMPLETED)
            if waiting.done():
                return waiting.result()
            raise DeviceError(f"headrace up exited with {ending.result()}: {_last_words(log)}")
        finally:
            for task in (waiting, ending):
                if not task.done():
                    task.cancel()
            await asyncio.gather(waiting, ending, return_exceptions=True)

    async def down(self) -> None:
        """Stops the node with all of its processes and removes its folder."""
        if self._process is not None:
            with contextlib.suppress(DeviceError):
                await self.client.pause(False)
            ender = await asyncio.create_subprocess_exec(
                self._command(), "down", "--rundir", str(self.rundir),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            try:
                await asyncio.wait_for(ender.wait(), patient(DOWN_S))
            except TimeoutError:
                ender.kill()
                await ender.wait()
            if self._process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    self._process.terminate()
                try:
                    await asyncio.wait_for(self._process.wait(), patient(DOWN_S))
                except TimeoutError:
                    self._process.kill()
                    await self._process.wait()
            self._process = None
            await end_owned(self.rundir)
        await self.client.close()
        shutil.rmtree(self.rundir, ignore_errors=True)


def _flow_source() -> Path:
    try:
        return flow_source(find_program("headrace-switch"))
    except (ProgramMissing, PeerError) as error:
        raise DeviceError(f"in-process source: {error}") from error


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-600:] or "it said nothing"
