# SPDX-License-Identifier: Apache-2.0
"""What a VNF that is another's reaches: a hostile program in a container's or a process's place."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import socket
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engines.confinement import autogroups
from headrace.engines.runc import RUNC
from headrace.machine.cgroups import Group, find_hierarchies
from headrace.machine.confined import Confined
from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.config import usable_cores
from headrace.node.node import Node
from tests.node import graphs
from tests.node.conftest import StartNode

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(shutil.which(RUNC) is None, reason=f"{RUNC} is not installed (make setup)"),
]

CORES = usable_cores()
SETTINGS = {
    "hugepages": "off",
    "ports": [{"name": name, "kind": "memif"} for name in ("p0", "p1")],
    "oversubscribe": True,
    "memory_mb": 1024,
}

# Each line tries one thing that is not the VNF's; what succeeds is printed.
HOSTILE = """
import ctypes, json, os, socket, sys
others, victims = json.loads(sys.argv[1]), []
def attempt(name, work):
    try:
        work()
    except OSError:
        return
    victims.append(name)
def connect(path):
    socket.socket(socket.AF_UNIX, socket.SOCK_STREAM).connect(path)
def syscall(number, *arguments):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(number, *arguments) == -1:
        raise OSError(ctypes.get_errno(), "")
for path in others:
    attempt("list " + path, lambda: os.listdir(path))
    attempt("read " + path, lambda: open(path, "rb").read())
    attempt("write " + path, lambda: open(path, "r+b"))
    if len(sys.argv) <= 4:  # a container has a /tmp of its own, where all may be made
        attempt("put beside " + path, lambda: open(os.path.dirname(path) + "/planted", "w"))
    attempt("connect to " + path, lambda: connect(path))
api = ("127.0.0.1", int(sys.argv[2]))
attempt("reach the node's API", lambda: socket.create_connection(api))
attempt("become root", lambda: os.setuid(0) if os.getuid() else os.setuid(1))
attempt("chroot", lambda: os.chroot("/"))
attempt("mount", lambda: syscall(165, b"none", b"/tmp", b"tmpfs", 0, 0))
attempt("write to /proc/sys", lambda: open("/proc/sys/kernel/domainname", "w"))
attempt("write to /sys", lambda: open("/sys/kernel/mm/ksm/run", "w"))
attempt("raise its limits", lambda: open("/sys/fs/cgroup/memory/memory.limit_in_bytes", "w"))
attempt("signal the node", lambda: os.kill(int(sys.argv[3]), 0))
if len(sys.argv) > 4:  # in a container
    attempt("unshare", lambda: syscall(272, 0x10000000))
    attempt("bpf", lambda: syscall(321, 0, 0, 0))
    attempt("io_uring", lambda: syscall(425, 1, 0))
    attempt("packet socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
    attempt("see the host's cgroups", lambda: os.stat("/sys/fs/cgroup/memory"))
print(json.dumps(victims))
"""


@pytest.fixture(autouse=True)
def _programs() -> None:
    for program in ("headrace-switch", "headrace-vnf"):
        try:
            find_program(program)
        except ProgramMissing as error:
            pytest.skip(str(error))


@pytest.fixture
def listener() -> Iterator[int]:
    """A port of the loopback interface that accepts, as the node's API does."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield int(server.getsockname()[1])


async def two_graphs(start_node: StartNode, template: str, **more: object) -> Node:
    node = await start_node(**{**SETTINGS, **more})
    for name in ("mine", "theirs"):
        document = graphs.document([], [], [graphs.vnf("v", template)])
        await node.graphs.create(name, document)
    return node


def not_mine(node: Node) -> list[str]:
    """Everything below the node's directory but what is the VNF's of graph `mine`."""
    (mine,) = node.graphs.record("mine").plan.vnfs()
    place = node.engines[mine.engine]._confinement.place(mine)  # type: ignore[attr-defined]
    own = [place, *(node.rundir / "ports" / port.switch_port.name for port in mine.ports)]
    found = [path for path in node.rundir.rglob("*") if not any(p in path.parents for p in own)]
    return [str(path) for path in found if path not in own and "rootfs" not in path.parts]


def reached(command: list[str]) -> list[str]:
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    victims: list[str] = json.loads(done.stdout)
    return victims


@pytest.mark.parametrize("kind", ["memif", "vhost-user", "shm"])
async def test_a_container_reaches_nothing_but_its_own(
    start_node: StartNode, listener: int, kind: str
) -> None:
    node = await two_graphs(start_node, "pass-container", vnf_ports=kind)
    (mine,) = node.graphs.record("mine").plan.vnfs()
    command = [RUNC, "--root", str(node.rundir / "runc"), "exec", mine.name]
    own_socket = f"{mine.ports[0].switch_port.options.get('group')}.shm"
    # The folders on the way to its own are made for it; what it sees of them is checked below.
    paths = [path for path in not_mine(node) if not await asyncio.to_thread(Path(path).is_dir)]
    others = json.dumps([path for path in paths if not path.endswith(own_socket)])
    inside = [*command, "/usr/bin/python3", "-I", "-c", HOSTILE, others]
    assert reached([*inside, str(listener), str(os.getpid()), "container"]) == []
    # Of the node's directory it sees its own files alone.
    listing = (
        "import json, os, sys; "
        "print(json.dumps([f for *_, fs in os.walk(sys.argv[1]) for f in fs]))"
    )
    seen = reached([*command, "/usr/bin/python3", "-I", "-c", listing, str(node.rundir)])
    assert "config.json" in seen
    known = ("config.json", "ctl", ".sock", ".memif", own_socket)
    assert all(name.endswith(known) for name in seen), seen


@pytest.mark.parametrize("kind", ["memif", "vhost-user", "shm"])
async def test_a_process_reaches_nothing_but_its_own(
    start_node: StartNode, listener: int, kind: str
) -> None:
    node = await two_graphs(start_node, "pass", vnf_ports=kind)
    (mine,), (theirs,) = (node.graphs.record(name).plan.vnfs() for name in ("mine", "theirs"))
    assert mine.user is not None and mine.group is not None and mine.node_group is not None
    assert mine.user != theirs.user and mine.group != theirs.group
    own_socket = f"{mine.ports[0].switch_port.options.get('group')}.shm"
    others = json.dumps([path for path in not_mine(node) if not path.endswith(own_socket)])
    confined = Confined(mine.user, (mine.group, mine.node_group))
    program = ["/usr/bin/python3", "-I", "-c", HOSTILE, others, str(listener), str(os.getpid())]
    assert reached([*confined.command(), *program]) == []


async def test_a_process_has_a_user_and_limits_of_its_own(start_node: StartNode) -> None:
    node = await two_graphs(start_node, "pass")
    (vnf,) = node.graphs.record("mine").plan.vnfs()
    process = node.supervisor.find(f"vnf-{vnf.name}")
    assert process is not None
    status = Path(f"/proc/{process.pid}/status").read_text()  # noqa: ASYNC240
    fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
    assert fields["Uid"].split() == [str(vnf.user)] * 4
    assert int(fields["CapEff"], 16) == int(fields["CapPrm"], 16) == 0
    assert fields["NoNewPrivs"] == "1"
    environment = Path(f"/proc/{process.pid}/environ").read_bytes()  # noqa: ASYNC240
    names = {entry.split(b"=")[0] for entry in environment.split(b"\0") if entry}
    assert names <= {b"PATH", b"XDG_RUNTIME_DIR", b"HEADRACE_OWNER"}
    confinement = node.engines["process"]._confinement  # type: ignore[attr-defined]
    places = {place.parts[4]: place for place in Group(confinement.group(vnf)).places()}
    for place in places.values():
        assert str(process.pid) in (place / "cgroup.procs").read_text().split(), place
    if "memory" in places:  # version 1
        limit = int((places["memory"] / "memory.limit_in_bytes").read_text())
        assert limit == (vnf.memory_mb + 192) << 20
        assert int((places["pids"] / "pids.max").read_text()) == 64
        assert (places["cpuset"] / "cpuset.cpus").read_text().strip() == str(vnf.cores[0])
    groups = [place for place in Group(confinement.parent).places()]
    await node.graphs.delete("mine")
    await node.graphs.delete("theirs")
    assert not any(place.exists() for place in places.values())
    assert all(place.exists() for place in groups)  # until `down`


@pytest.mark.parametrize("of", ["node", "template"])
async def test_vnfs_that_yield_are_scheduled_together(
    start_node: StartNode, rundir: Path, of: str
) -> None:
    """In groups of their own, as sessions are, they would give way to nobody.

    Without autogroups they are as all other processes, so that they give way to a generator, too.
    """
    file = rundir / "yields.yaml"
    file.write_text(
        "{id: yields, name: yields, functional-capability: yields, engine: process, "
        "function: pass, cores: 1, memory-mb: 64, idle: yield}"
    )
    idle = {"idle": "yield"} if of == "node" else {"templates": [str(file)]}
    node = await start_node(**{**SETTINGS, **idle})
    await node.graphs.create("mine", graphs.chain("pass" if of == "node" else "yields", 1))
    (vnf,) = node.graphs.record("mine").plan.vnfs()
    process = node.supervisor.find(f"vnf-{vnf.name}")
    assert process is not None
    lines = Path(f"/proc/{process.pid}/cgroup").read_text().splitlines()  # noqa: ASYNC240
    groups = dict(line.split(":", 2)[1:] for line in lines)
    of_cpu = [place for names, place in groups.items() if "cpu" in names.split(",")]
    if not of_cpu:
        pytest.skip("cgroups of version 2: the group is there, its cpu controller is not enabled")
    own = Path(f"/proc/{os.getpid()}/cgroup").read_text().splitlines()  # noqa: ASYNC240
    mine = [line.split(":", 2)[2] for line in own if "cpu" in line.split(":")[1].split(",")]
    confinement = node.engines["process"]._confinement  # type: ignore[attr-defined]
    assert of_cpu == ([f"/{confinement.parent}-yield"] if autogroups() else mine)
    await node.graphs.delete("mine")


async def test_vnfs_on_one_core_give_it_to_each_other(start_node: StartNode) -> None:
    """Of two that have nothing to do, most empty rounds are followed by one of the other's."""
    first, last = CORES[0], CORES[-1]
    cores = {"control": [first], "switch": [last], "vnf": [first]}
    node = await start_node(**SETTINGS, idle="yield", cores=cores)
    if autogroups() and "cpu" not in find_hierarchies().version1:
        pytest.skip("autogroups, and cgroups of version 2: each session is a group of its own")
    await node.graphs.create("mine", graphs.chain("pass", 2))
    vnfs = node.graphs.record("mine").plan.vnfs()
    assert [vnf.cores for vnf in vnfs] == [(first,)] * 2

    async def seen() -> tuple[int, int]:
        """Rounds and switches to another process of both."""
        rounds = switches = 0
        for vnf in vnfs:
            rounds += (await node.engines["process"].cycles(vnf))["polls"]
            process = node.supervisor.find(f"vnf-{vnf.name}")
            assert process is not None
            for task in Path(f"/proc/{process.pid}/task").iterdir():  # noqa: ASYNC240
                if (task / "comm").read_text().strip() == "vnf-worker":
                    lines = (task / "status").read_text().splitlines()
                    switches += sum(int(one.split()[1]) for one in lines if "ctxt_switches" in one)
        return rounds, switches

    before = await seen()
    await asyncio.sleep(0.5)
    after = await seen()
    assert after[0] - before[0] > 1000
    assert after[1] - before[1] > 0.5 * (after[0] - before[0])


async def test_folders_and_files_are_the_nodes_alone(start_node: StartNode) -> None:
    node = await two_graphs(start_node, "pass")
    for path in [node.rundir, *node.rundir.rglob("*")]:
        if path.is_symlink():
            continue
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode & 0o007 == 0, f"{path}: {mode:o}"
        if path.is_dir():
            assert mode & 0o060 == 0, f"{path}: {mode:o}"  # passed at most, never listed
        elif path.name.startswith("node.sqlite"):
            assert mode == 0o600, f"{path}: {mode:o}"


async def test_hugepages_are_a_vnfs_own(start_node: StartNode) -> None:
    node = await start_node(**{**SETTINGS, "hugepages": "auto"})
    if not node.hugepages:
        pytest.skip(f"no hugepages: {node.hugepages_note}")
    for name, template in (("p", "pass"), ("c", "pass-container")):
        await node.graphs.create(name, graphs.document([], [], [graphs.vnf("v", template)]))
        (vnf,) = node.graphs.record(name).plan.vnfs()
        engine = node.engines[vnf.engine]
        huge = engine._confinement.huge(vnf)  # type: ignore[attr-defined]
        assert huge.is_mount() and huge.stat().st_uid == vnf.user
        log = node.supervisor.log_of(f"vnf-{vnf.name}").read_text()
        assert "on huge pages" in log or str(huge) in log, log
        await node.graphs.delete(name)
        assert not huge.exists()


async def test_hugepages_that_are_not_free_are_not_promised(
    start_node: StartNode, caplog: pytest.LogCaptureFixture
) -> None:
    node = await start_node(**{**SETTINGS, "hugepages": "auto"})
    if not node.hugepages:
        pytest.skip(f"no hugepages: {node.hugepages_note}")
    await node.graphs.create("p", graphs.document([], [], [graphs.vnf("v", "pass")]))
    (vnf,) = node.graphs.record("p").plan.vnfs()
    confinement = node.engines[vnf.engine]._confinement  # type: ignore[attr-defined]
    reserved = Path("/sys/kernel/mm/hugepages/hugepages-2048kB/resv_hugepages")
    await node.graphs.delete("p")
    before = reserved.read_text()  # noqa: ASYNC240
    confinement.prepare(vnf, hugepages_mb=1 << 20)
    assert not confinement.huge(vnf).exists()
    assert reserved.read_text() == before  # noqa: ASYNC240
    assert "1048576 MB of hugepages are not free" in caplog.text
    confinement.prepare(vnf, hugepages_mb=3)  # rounded to whole pages
    assert confinement.huge(vnf).is_mount()
    confinement.remove(vnf)
    assert not confinement.huge(vnf).exists()


def test_a_refusal_names_the_program() -> None:
    command = [*Confined(1_900_000_000).command(), "/no-such-program"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "/no-such-program: No such file or directory\n"
