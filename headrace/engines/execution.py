# SPDX-License-Identifier: Apache-2.0
"""Commands that run inside a VNF beside its program: for operators, probes and reloads.

They have the VNF's user, namespaces and limits. What they leave running ends with the VNF.
"""

import asyncio
import contextlib
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from headrace.engines.base import EngineError, VnfSpec
from headrace.machine.priority import ordinary

MAX_OUTPUT = 1 << 20
"""Octets that are kept of each stream."""

_CHUNK = 1 << 16
_LAST_WORDS_S = 0.5
"""How long the streams may stay open after the command has ended: something of it may hold them."""


class NotRunning(EngineError):
    """The VNF does not run, so nothing can be run in it."""


@dataclass(frozen=True)
class Executed:
    """What a command did. `exit_code` is None if it was killed when its time was over."""

    exit_code: int | None
    stdout: bytes
    stderr: bytes
    truncated: bool


@runtime_checkable
class Executor(Protocol):
    """An engine that runs commands in its VNFs."""

    async def execute(
        self, vnf: VnfSpec, command: Sequence[str], stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Executed:
        """Runs a command in the VNF to its end, or for `timeout_s` seconds.

        Raises:
            NotRunning: the VNF does not run.
            EngineError: it cannot be started.
        """
        ...


async def run(
    argv: Sequence[str],
    environment: Mapping[str, str] | None,
    stdin: bytes,
    timeout_s: float,
    kill: Callable[[], None] = lambda: None,
) -> Executed:
    """Runs a program of the host, which enters a VNF; `kill` ends what it has started there.

    Raises:
        EngineError: it cannot be started.
    """
    try:
        child = await asyncio.create_subprocess_exec(
            *ordinary(argv),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment,
            cwd="/",
            start_new_session=True,
            umask=0o077,
        )
    except OSError as error:
        raise EngineError(f"cannot start {argv[0]}: {error}") from error
    assert child.stdin and child.stdout and child.stderr
    kept = (bytearray(), bytearray())
    readers = [
        asyncio.create_task(_keep(stream, into))
        for stream, into in zip((child.stdout, child.stderr), kept, strict=True)
    ]
    feeder = asyncio.create_task(_feed(child.stdin, stdin))
    code: int | None = None
    try:
        code = await asyncio.wait_for(child.wait(), timeout_s)
        await asyncio.wait(readers, timeout=_LAST_WORDS_S)
    except TimeoutError:
        pass
    finally:
        if child.returncode is None:
            kill()
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
            await child.wait()
        for task in (*readers, feeder):
            task.cancel()
        await asyncio.gather(*readers, feeder, return_exceptions=True)
    truncated = any(len(octets) > MAX_OUTPUT for octets in kept)
    out, err = (bytes(octets[:MAX_OUTPUT]) for octets in kept)
    return Executed(code, out, err, truncated)


async def _keep(stream: asyncio.StreamReader, into: bytearray) -> None:
    """Reads to the end, and keeps a little more than may be kept."""
    while part := await stream.read(_CHUNK):
        if len(into) <= MAX_OUTPUT:
            into += part


async def _feed(stream: asyncio.StreamWriter, octets: bytes) -> None:
    with contextlib.suppress(ConnectionError):
        stream.write(octets)
        await stream.drain()
    stream.close()
