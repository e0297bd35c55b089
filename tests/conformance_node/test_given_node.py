# SPDX-License-Identifier: Apache-2.0
"""The command against a node that is there: by its address, with its description captured."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from typer.testing import CliRunner

from headrace.bench.node_process import free_port
from headrace.cli import app
from tests.conformance_node.node import FaultyNode


@contextmanager
def served(node: FaultyNode) -> Iterator[str]:
    """A node behind a socket; its address."""
    port = free_port()
    server = uvicorn.Server(
        uvicorn.Config(node.app, host="127.0.0.1", port=port, log_level="error", lifespan="off")
    )
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join()


def run(address: str, *options: str) -> tuple[int, dict[int, str]]:
    """The command's exit code, and the verdicts of its tests."""
    words = ["conformance", "run", "--url", address, "--json", *options]
    done = CliRunner().invoke(app, words)
    found = json.loads(done.stdout)["tests"]
    return done.exit_code, {each["number"]: each["verdict"] for each in found}


def test_a_node_by_its_address(tmp_path: Path) -> None:
    listen = free_port()
    node = FaultyNode(upper=("127.0.0.1", listen))
    files = [tmp_path / "tests.xml", tmp_path / "tests.html"]
    with served(node) as address:
        options = ["--wire", "p0=lo", "--wire", "p1=lo", "--listen", f"127.0.0.1:{listen}"]
        code, found = run(address, "--only", "1-12", *options, "--junit", str(files[0]),
                          "--html", str(files[1]))  # fmt: skip
    assert (code, set(found.values())) == (0, {"pass"})
    assert all(file.stat().st_size > 1000 for file in files)


def test_a_fault_is_the_exit_code() -> None:
    with served(FaultyNode(5)) as address:
        code, found = run(address, "--only", "5,9", "--wire", "p0=lo", "--wire", "p1=lo")
    assert (code, found) == (1, {5: "fail", 9: "pass"})


def test_without_wires_what_needs_them_is_not_applicable() -> None:
    with served(FaultyNode()) as address:
        code, found = run(address, "--only", "1,8,14,18,19,21", "--no-same-host")
    assert code == 0
    assert {number for number, verdict in found.items() if verdict == "pass"} == {1, 8}
