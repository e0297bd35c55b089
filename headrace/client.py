# SPDX-License-Identifier: Apache-2.0
"""The commands' client of a node: its address, requests, and one-line errors."""

import ipaddress
import json
import os
import ssl
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn
from urllib.parse import urlsplit

import httpx
import typer
from rich.console import Console

from headrace.machine.patience import patient
from headrace.machine.places import DEFAULT_RUNDIR, RUNDIR_VARIABLE, log_directory
from headrace.machine.processes import ProcessId

__all__ = ["DEFAULT_RUNDIR", "NodeClient", "Rundir", "console", "fail"]

NODE_VARIABLE, TOKEN_VARIABLE, CACERT_VARIABLE = (
    "HEADRACE_NODE",
    "HEADRACE_TOKEN",
    "HEADRACE_CACERT",
)
"""A node elsewhere: its https://HOST:PORT, the token of `headrace login`, who signs for it."""


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

    def __init__(
        self,
        url: str,
        socket: str | None = None,
        token: str | None = None,
        cacert: Path | None = None,
    ) -> None:
        """Talks to the node at `url`, through its Unix socket if that is given.

        Without that `token` says who asks, and `cacert` has the certificates that may sign for the
        node; None are those that the machine trusts.
        """
        self.url = url.rstrip("/")
        self._socket = socket
        self._token = token
        self._cacert = cacert

    @staticmethod
    def of(rundir: Path) -> "NodeClient":
        """The client of the node that serves `rundir`, or of $HEADRACE_NODE if that is set."""
        elsewhere = os.environ.get(NODE_VARIABLE)
        if elsewhere:
            cacert = os.environ.get(CACERT_VARIABLE)
            token = os.environ.get(TOKEN_VARIABLE)
            return NodeClient(elsewhere, None, token, Path(cacert) if cacert else None)
        return NodeClient.local(rundir)

    @staticmethod
    def local(rundir: Path) -> "NodeClient":
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

    def request(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> httpx.Response:
        """Makes a request; returns its answer if it is a success."""
        headers = {"Content-Type": "application/json", **(headers or {})}
        if self._token:
            headers["X-Auth-Token"] = self._token
        with self._http() as http:
            answer = http.request(method, self._base + path, content=body, headers=headers)
        return _success(answer)

    def download(self, path: str, file: Path) -> None:
        """Writes the answer to GET `path` into a new file."""
        headers = {"X-Auth-Token": self._token} if self._token else {}
        with self._http() as http, http.stream("GET", self._base + path, headers=headers) as answer:
            if not answer.is_success:
                answer.read()
                _success(answer)
            try:
                with file.open("xb") as output:
                    for chunk in answer.iter_bytes():
                        output.write(chunk)
            except OSError as error:
                fail(f"{file}: {error.strerror}")

    @property
    def _base(self) -> str:
        # Through its own socket the node is always called by a name of its own.
        return "http://localhost" if self._socket else self.url

    @contextmanager
    def _http(self) -> Iterator[httpx.Client]:
        try:
            with (
                httpx.Client(
                    transport=httpx.HTTPTransport(uds=self._socket), timeout=patient(_TIMEOUT_S)
                )
                if self._socket
                else remote(self.url, self._cacert)
            ) as http:
                yield http
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            fail(f"the node at {self.url} does not answer: {error}")


def _success(answer: httpx.Response) -> httpx.Response:
    if answer.is_success:
        return answer
    try:
        text = answer.json()["message"]
    except (ValueError, KeyError, TypeError):
        text = f"{answer.status_code} {answer.text}".strip()
    again = answer.headers.get("Retry-After")
    fail(f"{text}; try again in {again} s" if again else text)


def remote(url: str, cacert: Path | None) -> httpx.Client:
    """A client for the node at `url`, whose certificate is checked, and of TLS 1.2 or later.

    A password or token never goes over a network in the clear: that ends the command.

    Raises:
        OSError: `cacert` cannot be read.
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not _is_loopback(parts.hostname or ""):
        fail(f"{url}: only https://HOST:PORT is for a node elsewhere")
    context = ssl.create_default_context(cafile=cacert)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return httpx.Client(verify=context, timeout=patient(_TIMEOUT_S))


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
