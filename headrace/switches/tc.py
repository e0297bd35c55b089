# SPDX-License-Identifier: Apache-2.0
"""Runs tc(8) of iproute2: many commands at once, which stop at the first that is refused."""

import asyncio
from collections.abc import Sequence

from headrace.switches.base import SwitchError

PROGRAM = "tc"


async def apply(commands: Sequence[str], *, forgiving: bool = False) -> None:
    """Runs commands of `tc -batch`, in order; `forgiving` goes on after one that is refused.

    Raises:
        SwitchError: one is refused, or there is no tc; the text is tc's.
    """
    words = [PROGRAM, *(["-force"] if forgiving else []), "-batch", "-"]
    try:
        child = await asyncio.create_subprocess_exec(
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
    except FileNotFoundError as error:
        raise SwitchError(f"{PROGRAM} is not installed (iproute2); run `make setup`") from error
    _, said = await child.communicate("".join(f"{each}\n" for each in commands).encode())
    if child.returncode and not forgiving:
        lines = [line for line in said.decode(errors="replace").splitlines() if line.strip()]
        raise SwitchError(f"{PROGRAM}: {' / '.join(lines[:3])}")
