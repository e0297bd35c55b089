# SPDX-License-Identifier: Apache-2.0
"""A server of the part of Docker's API that the node uses, on a Unix socket.

Its containers are real processes, each in network and PID namespaces of its own, of this machine's
programs; images are names. What it was asked to create is in `created`.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socketserver
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

_STDOUT, _STDERR = 1, 2


class Container:
    """One container: a process that `unshare` starts, and its output."""

    def __init__(self, name: str, asked: dict[str, Any], place: Path) -> None:
        self.name, self.asked = name, asked
        self.log = place / f"{name}.out"
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def argv(self) -> list[str]:
        return [*(self.asked.get("Entrypoint") or []), *(self.asked.get("Cmd") or [])]

    @property
    def environment(self) -> dict[str, str]:
        pairs = (entry.split("=", 1) for entry in self.asked.get("Env") or [])
        return {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", **dict(pairs)}

    def start(self) -> None:
        with self.log.open("wb") as out:
            self.process = subprocess.Popen(
                ["unshare", "--net", *self.argv], env=self.environment, stdout=out, stderr=out
            )

    @property
    def pid(self) -> int:
        running = self.process is not None and self.process.poll() is None
        return self.process.pid if self.process and running else 0

    def kill(self) -> None:
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process.pid, signal.SIGKILL)
            self.process.wait()


class FakeDocker:
    """The state of the daemon."""

    def __init__(self, place: Path, images: set[str], at_registry: set[str]) -> None:
        self.place, self.images, self.at_registry = place, images, at_registry
        self.containers: dict[str, Container] = {}
        self.created: list[dict[str, Any]] = []
        self.pulled: list[str] = []
        self.executions: list[tuple[Container, list[str], int]] = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def address_string(self) -> str:
        return "unix"

    def _answer(self, code: int, content: Any = None, kind: str = "application/json") -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        if code != 204:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if code != 204:
            self.wfile.write(data)

    def _missing(self, what: str) -> None:
        self._answer(404, {"message": f"No such {what}"})

    def _handle(self) -> None:
        parts = urlsplit(self.path)
        path = re.sub(r"^/v\d+\.\d+", "", parts.path)
        query = {key: values[0] for key, values in parse_qs(parts.query).items()}
        length = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(length) or b"null")
        daemon = self.server.daemon
        match [self.command, *path.strip("/").split("/")]:
            case ["GET", "version"]:
                self._answer(200, {"ApiVersion": "1.43", "Version": "fake"})
            case ["GET", "_ping"]:
                self._answer(200, b"OK", "text/plain")
            case ["GET", "images", *name, "json"]:
                known = "/".join(name) in daemon.images
                self._answer(200, {"Id": "x"}) if known else self._missing("image")
            case ["POST", "images", "create"]:
                name = f"{query['fromImage']}:{query['tag']}"
                if name not in daemon.at_registry:
                    return self._missing(f"manifest: {name}")
                daemon.images.add(name)
                daemon.pulled.append(name)
                self._answer(200, {"status": "pulled"})
            case ["POST", "containers", "create"]:
                if body["Image"] not in daemon.images:
                    return self._missing("image")
                daemon.created.append(body)
                name = query["name"]
                daemon.containers[name] = Container(name, body, daemon.place)
                self._answer(201, {"Id": name, "Warnings": []})
            case [method, "containers", name, *rest]:
                container = daemon.containers.get(name)
                if container is None:
                    return self._missing("container")
                self._container(method, container, rest, body)
            case ["POST", "exec", number, "start"]:
                self._execute(int(number))
            case ["GET", "exec", number, "json"]:
                self._answer(200, {"ExitCode": daemon.executions[int(number)][2]})
            case _:
                self._missing("page")
        return None

    def _container(self, method: str, container: Container, rest: list[str], body: Any) -> None:
        daemon = self.server.daemon
        match [method, *rest]:
            case ["GET", "json"]:
                code = container.process.poll() if container.process else 0
                state = {"Pid": container.pid, "Running": bool(container.pid), "ExitCode": code}
                argv = container.argv
                answer = {"Id": container.name, "State": state, "Path": argv[0], "Args": argv[1:]}
                self._answer(200, {**answer, "Config": {"Tty": False}, "HostConfig": {}})
            case ["POST", "start"]:
                container.start()
                self._answer(204)
            case ["GET", "logs"]:
                self._answer(200, _framed(_STDOUT, container.log.read_bytes()), "application/x")
            case ["POST", "exec"]:
                daemon.executions.append((container, body["Cmd"], 0))
                self._answer(201, {"Id": str(len(daemon.executions) - 1)})
            case ["DELETE"]:
                container.kill()
                del daemon.containers[container.name]
                self._answer(204)
            case _:
                self._missing("page")

    def _execute(self, number: int) -> None:
        daemon = self.server.daemon
        container, command, _ = daemon.executions[number]
        done = subprocess.run(
            ["nsenter", "--target", str(container.pid), "--net", *command],
            capture_output=True,
            env=container.environment,
            check=False,
        )
        daemon.executions[number] = (container, command, done.returncode)
        out = _framed(_STDOUT, done.stdout) + _framed(_STDERR, done.stderr)
        self.send_response(200)
        self.send_header("Content-Type", "application/vnd.docker.raw-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        time.sleep(0.1)  # the client reads what follows from the socket itself, past its buffer
        self.wfile.write(out)
        self.close_connection = True

    do_GET = do_POST = do_DELETE = _handle


def _framed(stream: int, data: bytes) -> bytes:
    """Octets of a stream as Docker multiplexes them."""
    return struct.pack(">BxxxL", stream, len(data)) + data if data else b""


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True
    daemon: FakeDocker


@contextmanager
def running(
    place: Path, images: set[str], at_registry: set[str] | None = None
) -> Iterator[tuple[str, FakeDocker]]:
    """The daemon's address, and its state; all containers end with it."""
    socket = place / "docker.sock"
    with _Server(str(socket), _Handler) as server:
        daemon = server.daemon = FakeDocker(place, images, at_registry or set())
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"unix://{socket}", daemon
        finally:
            server.shutdown()
            thread.join()
            for container in list(daemon.containers.values()):
                container.kill()
