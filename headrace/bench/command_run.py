# SPDX-License-Identifier: Apache-2.0
"""Runs a command of headrace for an experiment and reads the rows that it prints."""

import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.bench.errors import DeviceError

PATIENCE = 4.0
"""A command is ended after this many times the minutes that its experiment takes, and 5 more."""
END_S = 60.0


def _program() -> str:
    return str(Path(sys.executable).with_name("headrace"))


async def run_command(words: Sequence[str], minutes: float) -> list[dict[str, Any]]:
    """The rows of `headrace WORDS --json`.

    Raises:
        DeviceError: it failed, did not end in time, or printed no rows; says with which words.
    """
    process = await asyncio.create_subprocess_exec(
        _program(), *words, "--json",
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    told = f"headrace {' '.join(words)}"
    limit_s = 60 * (PATIENCE * minutes + 5)
    try:
        out, errors = await asyncio.wait_for(process.communicate(), limit_s)
    except TimeoutError as error:
        raise DeviceError(f"{told}: not ended after {limit_s / 60:.0f} min") from error
    finally:
        if process.returncode is None:
            await _end(process)
    try:
        rows = json.loads(out)["rows"]
    except (ValueError, KeyError, TypeError) as error:
        last = [line for line in errors.decode(errors="replace").splitlines() if line.strip()]
        why = last[-1][:400] if last else f"exit {process.returncode}, no rows"
        raise DeviceError(f"{told}: {why}") from error
    return [dict(row) for row in rows]


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ends a command as Ctrl-C would, so that it cleans up; kills it if that takes too long."""
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), END_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
