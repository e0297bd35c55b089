# SPDX-License-Identifier: Apache-2.0
"""The commands' client of a node: its address, requests, and one-line errors."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import httpx
import typer
from rich.console import Console

from headrace.machine.places import DEFAULT_RUNDIR, RUNDIR_VARIABLE, log_directory
from headrace.machine.processes import ProcessId

__all__ = ["DEFAULT_RUNDIR", "NodeClient", "Rundir", "console", "fail"]

_TIMEOUT_S = 120.0
_PIPE_WIDTH = 1000

Rundir = Annotated[
    Path, typer.Option(envvar=RUNDIR_VARIABLE, help="The node's directory, which identifies it.")
]


def console() -> Console:
    """Where tables go: as wide as the terminal, and not cut where there is none (a pipe, a log)."""
    return Console() if sys.stdout.isatty() else Console(width=_PIPE_WIDTH)


def fail(message: str) -> NoReturn:
    """Ends the command with one line and exit status 1."""
    print(f"headrace: {message}", file=sys.stderr)
    raise SystemExit(1)


class NodeClient:
    """Requests to a node; every failure ends the command with one clear line."""

    def __init__(self, url: str, socket: str | None = None) -> None:
        """Talks to the node at `url`, through its Unix socket if that is given."""
        self.url = url.rstrip("/")
        self._socket = socket

    @staticmethod
    def of(rundir: Path) -> "NodeClient":
        """The client of the node that serves `rundir`."""
        try:
            said = json.loads((rundir / "node.json").read_text())
            process = ProcessId(int(said["pid"]), int(said["start_ticks"]))
            url, socket = str(said["url"]), str(said["socket"])
        except (OSError, ValueError, KeyError, TypeError):
            fail(f"no node serves {rundir}; start one with `headrace up`")
        if not process.alive():
            log = log_directory(rundir) / "node.log"
            fail(
                f"the node of {rundir} has exited unexpectedly (see {log}); "
                f"`headrace up` goes on with what it left, `headrace down` ends that"
            )
        return NodeClient(url, socket)

    def get(self, path: str) -> Any:
        """The JSON answer to GET `path`."""
        return self.request("GET", path).json()

    def request(self, method: str, path: str, body: bytes | None = None) -> httpx.Response:
        """Makes a request; returns its answer if it is a success."""
        headers = {"Content-Type": "application/json"}
        # Through its own socket the node is always called by a name of its own.
        address = "http://localhost" if self._socket else self.url
        try:
            with httpx.Client(
                transport=httpx.HTTPTransport(uds=self._socket) if self._socket else None,
                timeout=_TIMEOUT_S,
            ) as http:
                answer = http.request(method, address + path, content=body, headers=headers)
        except httpx.HTTPError as error:
            fail(f"the node at {self.url} does not answer: {error}")
        if answer.is_success:
            return answer
        try:
            text = answer.json()["message"]
        except (ValueError, KeyError, TypeError):
            text = f"{answer.status_code} {answer.text}".strip()
        fail(text)
