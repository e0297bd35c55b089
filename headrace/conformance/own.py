# SPDX-License-Identifier: Apache-2.0
"""Nodes of the tests' own, brought up and taken down with the commands that an operator would use.

Interfaces and functions are tested on a node whose ports are kernel interfaces, so that every frame
can be captured on its wire; performance on one whose ports are memif, so that what is measured is
the node. On a machine with few cores the generator shares its core with the VNFs.
"""

import asyncio
import os
import shutil
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from headrace.bench.core_plan import plan_cores
from headrace.bench.node_process import free_port, run_folder
from headrace.bench.owned import end_owned
from headrace.conformance.dialects import DIALECTS
from headrace.conformance.generator import Generator
from headrace.conformance.host import Host
from headrace.conformance.node import Node
from headrace.conformance.rest import NoAnswer, Rest
from headrace.conformance.target import Settings, Target, Unavailable
from headrace.conformance.upper_layer import UpperLayer
from headrace.conformance.wires import KernelFrames, Noted, pairs, unnoted
from headrace.traffic import TrafficError

START_S = 60.0
DOWN_S = 90.0
PORTS = ("p0", "p1", "p2")
LOADED = ("in0", "out0")
UNDERLAY = "192.0.2.1/24"
_PROGRAMS = {"headrace": None, "ovs-dpdk": "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk",
             "linux-bridge": None}  # fmt: skip
"""The switches, and what each needs on the machine."""


_WITHOUT_WIRES = ("ovs-dpdk",)
"""Switches in a network namespace of their own, into which no pair of these tests leads."""


class OwnNode:
    """One node, from `up` to `down`."""

    def __init__(self, config: dict[str, Any]) -> None:
        self.rundir = run_folder()
        self._config = config
        port = free_port()
        config["rest"] = {"host": "127.0.0.1", "port": port}
        self.rest = Rest(f"http://127.0.0.1:{port}")
        self._process: asyncio.subprocess.Process | None = None

    async def up(self) -> None:
        """Starts the node and waits until it answers.

        Raises:
            Unavailable: it doesn't start; the text has the end of its log.
        """
        file, log = self.rundir / "conformance.yaml", self.rundir / "conformance.log"
        file.write_text(yaml.safe_dump(self._config))
        with log.open("wb") as stream:
            self._process = await asyncio.create_subprocess_exec(
                _command(), "up", "--config", str(file), "--rundir", str(self.rundir),
                "--foreground", stdin=asyncio.subprocess.DEVNULL, stdout=stream, stderr=stream,
                start_new_session=True,
            )  # fmt: skip
        end = asyncio.get_running_loop().time() + START_S
        while True:
            try:
                if (await self.rest.get("/node")).good:
                    return
            except NoAnswer:
                pass
            if self._process.returncode is not None:
                raise Unavailable(f"headrace up ended: {_last_words(log)}")
            if asyncio.get_running_loop().time() > end:
                raise Unavailable(f"headrace up does not answer: {_last_words(log)}")
            await asyncio.sleep(0.1)

    async def down(self) -> None:
        """Stops the node with all of its processes and removes its folder."""
        await self.rest.close()
        if self._process is not None:
            ender = await asyncio.create_subprocess_exec(
                _command(), "down", "--rundir", str(self.rundir),
                stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL, start_new_session=True,
            )  # fmt: skip
            for process in (ender, self._process):
                try:
                    await asyncio.wait_for(process.wait(), DOWN_S)
                except TimeoutError:
                    process.kill()
                    await process.wait()
            await end_owned(self.rundir)
        shutil.rmtree(self.rundir, ignore_errors=True)


def _command() -> str:
    return str(Path(sys.executable).with_name("headrace"))


def _last_words(log: Path) -> str:
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return " / ".join(lines[-3:])[-600:] or "it said nothing"


class OwnBed:
    """A node for the tests of single frames, another for those with a generator.

    Args:
        settings: of the tests.
        switch: of the node under test.
        noted: is told what is there, while it is.
    """

    def __init__(
        self, settings: Settings, switch: str = "headrace", noted: Noted = unnoted
    ) -> None:
        self._settings, self._switch, self._noted = settings, switch, noted
        self._plan = plan_cores()

    @property
    def is_one(self) -> bool:
        """See runner.Bed."""
        return False

    @asynccontextmanager
    async def target(self, loaded: bool) -> AsyncIterator[Target]:
        """See runner.Bed."""
        if os.geteuid() != 0:
            raise Unavailable("a node of one's own needs root; give another's address (--url)")
        if loaded:
            async with self._loaded() as target:
                yield target
        else:
            async with self._wired(self._switch) as target:
                yield target

    def switches(self) -> list[str]:
        """See target.Others."""
        there = [name for name, needs in _PROGRAMS.items() if needs is None or Path(needs).exists()]
        return [self._switch, *(name for name in there if name != self._switch)]

    @asynccontextmanager
    async def with_switch(self, switch: str) -> AsyncIterator[Target]:
        """See target.Others."""
        async with self._wired(switch) as target:
            yield target

    @asynccontextmanager
    async def placed_by(self, policy: str) -> AsyncIterator[Target]:
        """See target.Others."""
        async with self._wired(self._switch, placement=policy) as target:
            yield target

    def _config(self, switch: str, ports: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        plan = self._plan
        return {
            "name": "conformance",
            "switch": switch,
            "cores": {"control": plan.control, "switch": plan.switch, "vnf": plan.vnf},
            "memory_mb": 640,
            "switch_memory_mb": 256,
            "oversubscribe": True,
            "ports": ports,
            **more,
        }

    @asynccontextmanager
    async def _wired(self, switch: str, **more: Any) -> AsyncIterator[Target]:
        """A node whose ports are near ends of pairs; the tests have the far ends."""
        async with AsyncExitStack() as stack:
            wires: dict[str, tuple[dict[str, Any], str]] = {}
            if switch not in _WITHOUT_WIRES:
                wires = await stack.enter_async_context(_wires(switch, self._noted))
            upper = UpperLayer(Rest("http://127.0.0.1:1"), ("127.0.0.1", 0))
            await upper.open()
            stack.push_async_callback(upper.close)
            ports = [port for port, _ in wires.values()]
            ports = ports or [{"name": name, "kind": "vhost-user"} for name in PORTS]
            url = f"http://127.0.0.1:{upper.port}/"
            config = self._config(switch, ports, orchestrator={"url": url}, **more)
            node = await self._up(stack, config)
            upper.follow(node.rest)
            target = Target(node, upper, self._settings, host=Host(), others=self)
            if wires:
                frames = KernelFrames({name: interface for name, (_, interface) in wires.items()})
                stack.callback(frames.close)
                target.frames = frames
            yield target

    @asynccontextmanager
    async def _loaded(self) -> AsyncIterator[Target]:
        """A node whose two ports are a generator's."""
        async with AsyncExitStack() as stack:
            ports = [{"name": name, "kind": "memif"} for name in LOADED]
            config = self._config(self._switch, ports, idle="yield")
            node = await self._up(stack, config)
            upper = UpperLayer(node.rest)
            devices: dict[str, str] = {}
            for port in (await node.rest.get("/node/ports")).content or []:
                devices[port["name"]] = port["attach"]["devargs"]
            core = self._plan.generator[0]
            generator = Generator(devices, core, shares=core in self._plan.vnf)
            try:
                await generator.open()
            except TrafficError as error:
                raise Unavailable(f"generator: {error}") from error
            stack.push_async_callback(generator.close)
            yield Target(node, upper, self._settings, loads=generator, host=Host(), others=self)

    async def _up(self, stack: AsyncExitStack, config: dict[str, Any]) -> Node:
        own = OwnNode(config)
        stack.enter_context(self._noted("node", own.rundir))
        stack.push_async_callback(own.down)
        await own.up()
        return Node(own.rest, DIALECTS["headrace"])


@asynccontextmanager
async def _wires(switch: str, noted: Noted) -> AsyncIterator[dict[str, tuple[dict[str, Any], str]]]:
    """For each port of node.yaml what it is, and the interface here that it is cabled to."""
    async with pairs(PORTS, noted) as ends:
        ports: dict[str, tuple[dict[str, Any], str]] = {}
        for name, (near, far) in ends.items():
            addresses = [UNDERLAY] if switch == "headrace" and name == PORTS[-1] else []
            options = {"iface": near}
            ports[name] = (
                {"name": name, "kind": "system", "options": options, "addresses": addresses},
                far,
            )
        yield ports
