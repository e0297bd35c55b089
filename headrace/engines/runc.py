# SPDX-License-Identifier: Apache-2.0
"""Starts and deletes containers by runc, without a daemon; its state is below one directory."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace.engines.base import EngineError, VnfSpec
from headrace.engines.execution import Executed, run
from headrace.machine.priority import ordinary
from headrace.machine.processes import OWNER_VARIABLE, ProcessError, make_private, open_log

RUNC = "runc"


class Runc:
    """The containers of a node, whose state is in `state`."""

    def __init__(self, state: Path) -> None:
        self._state = state

    def check(self) -> None:
        """Whether there is runc.

        Raises:
            ProcessError: it is not installed.
        """
        if shutil.which(RUNC) is None:
            raise ProcessError(f"{RUNC} is not installed; run `make setup`")

    async def create(self, name: str, bundle: Path, log: Path) -> int | None:
        """Makes a container, whose program waits for `start`; the pid, None if that fails."""
        pid_file = bundle / "pid"
        make_private(log.parent)
        further = ("--bundle", str(bundle), "--pid-file", str(pid_file), name)
        if await self._call("create", *further, log=log) != 0:
            return None
        return int(pid_file.read_text())

    async def start(self, name: str, log: Path) -> bool:
        """Starts the program of a container that was created; whether that succeeds."""
        return await self._call("start", name, log=log) == 0

    async def execute(
        self, vnf: VnfSpec, bundle: Path, command: Sequence[str], stdin: bytes, timeout_s: float
    ) -> Executed:
        """Runs a command in a container, as its program is run: user, variables, limits.

        Raises:
            EngineError: it cannot be started.
        """
        configuration = await asyncio.to_thread((bundle / "config.json").read_text)
        process = json.loads(configuration)["process"]
        process["args"] = list(command)
        # By the mark the supervisor finds the VNF's own process.
        mark = f"{OWNER_VARIABLE}="
        process["env"] = [entry for entry in process["env"] if not entry.startswith(mark)]
        with TemporaryDirectory(prefix="headrace-exec-") as place:
            file, pid_file = Path(place) / "process.json", Path(place) / "pid"
            await asyncio.to_thread(file.write_text, json.dumps(process))
            words = ("exec", "--process", str(file), "--pid-file", str(pid_file), vnf.name)

            def kill() -> None:
                with contextlib.suppress(OSError, ValueError):
                    os.kill(int(pid_file.read_text()), signal.SIGKILL)

            argv = [RUNC, "--root", str(self._state), *words]
            return await run(argv, None, stdin, timeout_s, kill)

    async def delete(self, vnf: VnfSpec) -> None:
        """Removes what runc keeps of a container that has ended: its state and its cgroups.

        Raises:
            EngineError: that fails.
        """
        if (self._state / vnf.name).exists() and await self._call("delete", "--force", vnf.name):
            raise EngineError(f"VNF {vnf.vnf}: {RUNC} cannot delete its container")

    async def _call(self, *words: str, log: Path | None = None) -> int:
        """Runs runc to its end; what it says, and what the container will, goes to `log`."""
        with open_log(log or Path("/dev/null")) as output:
            child = await asyncio.create_subprocess_exec(
                *ordinary([RUNC, "--root", str(self._state), *words]),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                umask=0o077,
            )
            return await child.wait()
