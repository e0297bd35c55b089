# SPDX-License-Identifier: Apache-2.0
"""Asks a VNF whether it works: from within its network namespace, or by a command in it."""

import asyncio
import http.client
import socket
from pathlib import Path
from typing import Protocol, runtime_checkable

from headrace.engines.base import Engine, EngineError, VnfSpec
from headrace.engines.execution import Executor
from headrace.engines.supervision import Probe
from headrace.switches.veth import inside

_SHOWN = 200


@runtime_checkable
class Networked(Protocol):
    """An engine whose VNFs have a network namespace with servers in it."""

    def network(self, vnf: VnfSpec) -> Path | None:
        """The file of the VNF's namespace; None if it does not run."""
        ...


async def ask(engine: Engine, vnf: VnfSpec, probe: Probe) -> str | None:
    """Why the VNF fails the probe; None: it passes."""
    try:
        if probe.exec:
            return await _execute(engine, vnf, probe)
        network = engine.network(vnf) if isinstance(engine, Networked) else None
        if network is None:
            return "it does not run"
        return await asyncio.to_thread(inside, str(network), lambda: _connect(probe))
    except (EngineError, OSError) as error:
        return str(error)


async def _execute(engine: Engine, vnf: VnfSpec, probe: Probe) -> str | None:
    if not isinstance(engine, Executor):
        return f"engine {vnf.engine} runs no commands"
    done = await engine.execute(vnf, probe.exec, timeout_s=probe.timeout_s)
    if done.exit_code == 0:
        return None
    if done.exit_code is None:
        return f"{probe.exec[0]}: no end after {probe.timeout_s:g} s"
    said = (done.stderr or done.stdout).decode(errors="replace").strip()[-_SHOWN:]
    return f"{probe.exec[0]} ended with {done.exit_code}{': ' if said else ''}{said}"


def _connect(probe: Probe) -> str | None:
    """The question by TCP; the calling thread is in the VNF's network."""
    port = probe.tcp if probe.http is None else probe.http.port
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=probe.timeout_s) as connection:
            if probe.http is None:
                return None
            client = http.client.HTTPConnection("127.0.0.1", port, timeout=probe.timeout_s)
            client.sock = connection
            client.request("GET", probe.http.path, headers={"User-Agent": "headrace-probe"})
            status = client.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return f"port {port}: {error or type(error).__name__}"
    return None if 200 <= status < 400 else f"GET {probe.http.path}: {status}"
