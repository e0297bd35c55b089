# SPDX-License-Identifier: Apache-2.0
"""The ovs-ofctl program, for flows that people write in its notation (ovs-ofctl(8))."""

import asyncio
from collections.abc import Sequence

from headrace.machine.patience import patient
from headrace.switches.base import SwitchError

OFCTL = "/usr/bin/ovs-ofctl"
_PATIENCE_S = 30.0


async def ofctl(words: Sequence[str], flows: Sequence[str]) -> str:
    """Runs ovs-ofctl for OpenFlow 1.3 with flows as its input; what it writes.

    Raises:
        SwitchError: it is not there, or fails; its own words.
    """
    try:
        program = await asyncio.create_subprocess_exec(
            OFCTL,
            "-O",
            "OpenFlow13",
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise SwitchError(f"{OFCTL} cannot be started: {error.strerror}") from error
    text = "".join(f"{flow}\n" for flow in flows).encode()
    patience_s = patient(_PATIENCE_S)
    try:
        out, errors = await asyncio.wait_for(program.communicate(text), patience_s)
    except TimeoutError as error:
        program.kill()
        raise SwitchError(f"ovs-ofctl {words[0]}: no end after {patience_s:g} s") from error
    if program.returncode:
        said = errors.decode(errors="replace").strip()[:1000]
        raise SwitchError(said.removeprefix("ovs-ofctl: "))
    return out.decode(errors="replace")


async def check_flows(flows: Sequence[str]) -> None:
    """Checks the notation of flows; no switch is asked.

    Raises:
        SwitchError: names the line.
    """
    await ofctl(("parse-flows", "-"), flows)
