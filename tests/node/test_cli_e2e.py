# SPDX-License-Identifier: Apache-2.0
"""The commands as a person types them: up, graph, switch, down; nothing is left afterwards."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.client import NodeClient
from headrace.commands.switch import rates, spent, spent_in_tables
from headrace.machine.processes import ProcessId, Supervisor
from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.parts import prefix_of
from headrace.node.restarts import Backoff
from tests.docs.pages import block
from tests.node import graphs

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a node"),
]

# The node's own commands: the whole of `headrace` loads what measures and draws, too.
MAIN = """
import typer
from headrace.commands import graph, node, switch
app = typer.Typer(pretty_exceptions_enable=False)
for part in (graph, node, switch):
    part.register(app)
app()
"""

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def headrace(rundir: Path) -> Iterator[Run]:
    """Runs `headrace ARGUMENTS --rundir RUNDIR`; takes the node down at the end."""

    def run(*arguments: str, timeout: float = 110) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [
                sys.executable,
                "-c",
                MAIN,
                *arguments,
                "--rundir",
                str(rundir),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"},
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    yield run
    run("down")


def up(headrace: Run, switch: str = "linux-bridge") -> None:
    started = headrace("up", "--switch", switch, "--rest", "127.0.0.1:0")
    assert started.returncode == 0, started.stderr
    assert " is up at http://127.0.0.1:" in started.stdout


def traces(rundir: Path) -> list[str]:
    """Whatever of the node is still in the system."""
    prefix = prefix_of(rundir)
    found = [name for name in os.listdir("/sys/class/net") if name.startswith(prefix)]
    if Path("/run/netns").is_dir():
        found += [name for name in os.listdir("/run/netns") if name.startswith(prefix)]
    found += list(Supervisor(rundir).all())
    for place in (Path("/dev/hugepages"), Path("/var/run/dpdk")):
        found += [str(path) for path in place.glob(f"*{prefix}*")]
    return found + ([str(rundir)] if rundir.exists() else [])


def test_life_of_a_node(headrace: Run, rundir: Path, tmp_path: Path) -> None:
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(graphs.chain("bridge", 1)))
    up(headrace)
    deployed = headrace("graph", "deploy", "first", str(file))
    assert (deployed.returncode, deployed.stdout) == (0, "first\n")
    assert "complete" in headrace("graph", "list").stdout
    shown = json.loads(headrace("graph", "show", "first").stdout)
    assert shown == graphs.chain("bridge", 1)
    assert "complete (100 %)" in headrace("graph", "status", "first").stdout
    file.write_text(json.dumps(graphs.port_to_port()))
    updated = json.loads(headrace("graph", "update", "first", str(file), "--json").stdout)
    assert (updated["id"], updated["status"]) == ("first", "complete")
    state = json.loads(headrace("status", "--json").stdout)
    assert [port["users"] for port in state["ports"]] == [["first"], ["first"]]
    assert "linux-bridge" in headrace("status").stdout
    assert headrace("graph", "delete", "first").returncode == 0
    assert json.loads(headrace("graph", "list", "--json").stdout) == []
    assert headrace("graph", "deploy", "again", str(file)).returncode == 0
    down = headrace("down", "--json")
    assert down.returncode == 0 and list(json.loads(down.stdout)) == ["ended"]
    assert traces(rundir) == []


def test_one_clear_line_for_each_mistake(headrace: Run, rundir: Path, tmp_path: Path) -> None:
    def complaint(*arguments: str) -> str:
        result = headrace(*arguments)
        assert result.returncode == 1, result.stdout
        assert result.stderr.startswith("headrace: ") and result.stderr.count("\n") == 1
        return result.stderr.removeprefix("headrace: ").strip()

    assert complaint("status") == f"no node serves {rundir}; start one with `headrace up`"
    config = tmp_path / "node.yaml"
    config.write_text("switch: cisco\n")
    assert complaint("up", "--config", str(config)).startswith(
        f"{config}: switch: no switch is called"
    )
    config.write_text("ports:\n\t- p0\n")
    assert "no YAML: found character" in complaint("up", "--config", str(config))
    config.write_text("ports: [{name: p0, kind: memif}]\n")
    wrong = complaint("up", "--config", str(config), "--switch", "linux-bridge")
    assert "ports[0].kind: switch linux-bridge has no memif ports" in wrong
    assert "write HOST:PORT" in complaint("up", "--rest", "nonsense")
    up(headrace)
    assert "a node already runs at http://127.0.0.1:" in complaint("up", "--rest", "127.0.0.1:0")
    file = tmp_path / "graph.json"
    form = "write `headrace graph deploy ID FILE`"
    assert complaint("graph", "deploy", "g", str(file)) == f"{file}: No such file or directory"
    assert complaint("graph", "deploy", "g").endswith(form)
    assert complaint("graph", "deploy", str(config), "g") == f"{config} is a file: {form}"
    assert complaint("graph", "deploy", str(config), "--id", "g").endswith(form)
    assert "there is no example 'x', only" in complaint("graph", "deploy", "example:x")
    file.write_text("{")
    assert "the body is no JSON" in complaint("graph", "deploy", "g", str(file))
    file.write_text(json.dumps(graphs.chain("nosuch", 1)))
    text = complaint("graph", "deploy", "g", str(file))
    assert text.startswith("VNFs[0]: vnf_template 'nosuch' is unknown; there are: ")
    assert " bridge," in text
    assert complaint("graph", "delete", "x") == "there is no graph 'x'"
    assert complaint("graph", "update", "x", str(file)) == "there is no graph 'x'"


def test_address_in_use(headrace: Run, rundir: Path) -> None:
    up(headrace)
    url = json.loads((rundir / "node.json").read_text())["url"]
    other = Path(f"{rundir}b")
    second = headrace_with(other, "up", "--switch", "linux-bridge", "--rest", url.split("//")[1])
    try:
        assert second.returncode == 1
        assert "cannot listen on" in second.stderr and "--rest" in second.stderr
    finally:
        headrace_with(other, "down")
    assert not other.exists()


def headrace_with(rundir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", MAIN]
    return subprocess.run(
        [*command, *arguments, "--rundir", str(rundir)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=110,
    )


def test_down_refuses_a_foreign_directory(headrace: Run, rundir: Path) -> None:
    (rundir / "precious").write_text("data")
    result = headrace("down")
    assert result.returncode == 1 and "is not the directory of a node" in result.stderr
    assert (rundir / "precious").read_text() == "data"


@pytest.mark.parametrize("delay_s", [0.0, 0.1, 0.4])
def test_killed_while_deploying(
    headrace: Run, rundir: Path, tmp_path: Path, delay_s: float
) -> None:
    """kill -9 of the node at some moment of a deployment: the next `up` finishes it."""
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(graphs.chain("bridge", 2)))
    up(headrace)
    deploy = subprocess.Popen(
        [
            sys.executable,
            "-c",
            MAIN,
            *("graph", "deploy", "g", str(file), "--rundir", str(rundir)),
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stderr=subprocess.DEVNULL,
    )
    try:
        said = json.loads((rundir / "node.json").read_text())
        deadline = time.monotonic() + 60
        with sqlite3.connect(f"file:{rundir / 'node.sqlite'}?mode=ro", uri=True) as database:
            while not database.execute("SELECT count(*) FROM graph").fetchone()[0]:
                assert time.monotonic() < deadline, "the graph has not been noted"
                time.sleep(0.002)
        time.sleep(delay_s)
        ProcessId(said["pid"], said["start_ticks"]).signal(signal.SIGKILL)
    finally:
        deploy.wait(timeout=60)
    orphaned = headrace("graph", "list")
    assert orphaned.returncode == 1 and "`headrace up` goes on" in orphaned.stderr
    up(headrace)
    listed = json.loads(headrace("graph", "list", "--json").stdout)
    assert [entry["nffg-uuid"] for entry in listed] == ["g"]
    assert "complete (100 %)" in headrace("graph", "status", "g").stdout
    assert headrace("down").returncode == 0
    assert traces(rundir) == []


def test_switch_commands_without_the_switch(headrace: Run, rundir: Path) -> None:
    result = headrace("switch", "tables")
    assert result.returncode == 1 and "no node serves" in result.stderr
    up(headrace)
    result = headrace("switch", "tables")
    assert result.returncode == 1 and "does not run headrace-switch" in result.stderr


@pytest.mark.dpdk
def test_switch_commands(headrace: Run, rundir: Path, tmp_path: Path) -> None:
    try:
        find_program("headrace-switch")
    except ProgramMissing as error:
        pytest.skip(str(error))
    file = tmp_path / "graph.json"
    file.write_text(json.dumps(graphs.port_to_port()))
    up(headrace, "headrace")
    assert headrace("graph", "deploy", "g", str(file)).returncode == 0
    lsi0 = f"{prefix_of(rundir)}-0"
    shown = json.loads(headrace("switch", "show", "--json").stdout)
    ports = {port["name"] for lsi in shown["lsis"] for port in lsi["ports"] if lsi["name"] == lsi0}
    assert {"p0", "p1"} <= ports
    tables = json.loads(headrace("switch", "tables", "--json").stdout)
    by_lsi = {lsi["name"]: lsi["tables"] for lsi in tables["lsis"]}
    assert by_lsi[lsi0][0]["rules"] == 2
    assert lsi0 in headrace("switch", "show").stdout
    assert by_lsi[lsi0][0]["structure"] in headrace("switch", "tables").stdout
    assert headrace("switch", "drops").returncode == 0
    spent_now = json.loads(headrace("switch", "cycles", "--interval", "0.3", "--json").stdout)
    (worker,) = spent_now["workers"]
    assert spent_now["tables"] == []
    assert worker["polls_per_s"] > 0 and worker["packets_per_s"] == 0
    assert headrace("down").returncode == 0
    assert traces(rundir) == []


@pytest.mark.dpdk
def test_starts_again_what_has_ended(headrace: Run, rundir: Path, tmp_path: Path) -> None:
    try:
        find_program("headrace-switch")
    except ProgramMissing as error:
        pytest.skip(str(error))
    file = tmp_path / "graph.json"
    file.write_text(block("docs/graphs.md", "json"))  # the page's example, as a person copies it
    up(headrace, "headrace")
    deployed = headrace("graph", "deploy", "g", str(file))
    assert (deployed.returncode, deployed.stderr) == (0, ""), deployed.stderr
    supervisor = Supervisor(rundir)
    client = NodeClient.of(rundir)

    def whole() -> bool:
        return bool(client.get("/NF-FG/status/g")["status"] == "complete")

    for victim in [name for name in supervisor.all() if name.startswith(("vnf-", "switch"))]:
        before = supervisor.find(victim)
        assert before is not None
        before.signal(signal.SIGKILL)
        deadline = time.monotonic() + 60
        while supervisor.find(victim) in (None, before) or not whole():
            assert time.monotonic() < deadline, (rundir / "log" / "node.log").read_text()
            time.sleep(0.2)
    tables = json.loads(headrace("switch", "tables", "--json").stdout)
    assert sum(lsi["tables"][0]["rules"] for lsi in tables["lsis"]) == 8


def test_backoff() -> None:
    backoff = Backoff()
    tried = [now for now in range(300) if backoff.may_try("v", now)]
    assert tried[:6] == [0, 1, 3, 7, 15, 31]
    assert max(b - a for a, b in pairwise(tried)) == 60
    assert backoff.may_try("v", 10_000) and backoff.may_try("v", 10_001)


def test_backoff_begins_anew_with_what_has_run_for_a_while() -> None:
    backoff = Backoff()
    assert all(backoff.may_try("switch", now) for now in range(0, 120, 12))
    # It ends at once ten times; then it has run for 15 s, less than the wait was.
    tried = [now for now in range(200, 400) if backoff.may_try("switch", now)]
    assert tried[-1] - tried[-2] == 60
    assert backoff.may_try("switch", 399 + 15)


def test_spent_by_hand() -> None:
    def reading(busy: int, idle: int, packets: int) -> dict[str, list[dict[str, int]]]:
        worker = {"number": 0, "cpu": 1, "busy_cycles": busy, "idle_cycles": idle}
        return {"workers": [{**worker, "packets": packets, "polls": 10}]}

    (row,) = spent(reading(100, 100, 5), reading(400, 200, 15), 2.0)
    assert row["busy_percent"] == 75.0
    assert row["packets_per_s"] == 5 and row["cycles_per_packet"] == 30.0
    (quiet,) = spent(reading(0, 0, 5), reading(0, 50, 5), 1.0)
    assert quiet["cycles_per_packet"] is None and quiet["busy_percent"] == 0.0
    assert spent({"workers": []}, reading(1, 1, 1), 1.0) == []


def test_spent_in_tables_by_hand() -> None:
    def reading(packets: int, lookup: int, actions: int) -> dict[str, list[dict[str, object]]]:
        table = {"table_id": 3, "worker": 0, "packets": packets}
        table |= {"lookup_cycles": lookup, "action_cycles": actions}
        return {"lsis": [{"name": "br0", "tables": [table]}]}

    (row,) = spent_in_tables(reading(10, 100, 100), reading(20, 150, 400))
    assert row == {
        "lsi": "br0",
        "table": 3,
        "worker": 0,
        "packets": 10,
        "lookup": 5.0,
        "actions": 30.0,
    }
    assert spent_in_tables({"lsis": []}, reading(10, 40, 50))[0]["lookup"] == 4.0
    assert spent_in_tables(reading(10, 1, 1), reading(10, 1, 1)) == []


def test_rates_by_hand() -> None:
    def reading(received: int, dropped: int) -> dict[str, dict[str, object]]:
        counters = {"rx_packets": received, "tx_packets": 7, "rx_bytes": received * 60}
        port = {"name": "p1", "counters": counters}
        drops = {"name": "br0", "workers": {"0": {"table-miss": dropped, "no-output": 4}}}
        return {
            "show": {"lsis": [{"name": "br0", "ports": [port]}]},
            "drops": {"lsis": [{**drops, "ports": {"p1": {"rx_dropped": 2}}}]},
            "cycles": {"workers": []},
        }

    grown = rates(reading(100, 1), reading(300, 11), 2.0)
    (port,) = grown["ports"]
    assert (port["rx_packets"], port["tx_packets"], port["rx_bytes"]) == (100, 0, 6000)
    (drop,) = grown["drops"]
    assert (drop["where"], drop["reason"], drop["packets"]) == ("worker 0", "table-miss", 5)
