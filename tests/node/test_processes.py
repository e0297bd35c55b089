# SPDX-License-Identifier: Apache-2.0
"""Processes that outlive the node: found again, told apart, ended."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from headrace.machine.processes import ProcessError, ProcessId, Supervisor

SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]
STUBBORN = [
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('deaf', flush=True); time.sleep(60)",
]


async def until(condition: Callable[[], bool]) -> None:
    """Waits for what another process does; nothing tells us when."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
async def supervisor(rundir: Path) -> AsyncIterator[Supervisor]:
    made = Supervisor(rundir)
    yield made
    for name in made.all():
        await made.end(name, patience_s=0.5)


async def test_another_supervisor_adopts(supervisor: Supervisor, rundir: Path) -> None:
    process, started = await supervisor.ensure("a", SLEEP, digest="1")
    assert started and process.alive()
    again = Supervisor(rundir)
    assert await again.ensure("a", SLEEP, digest="1") == (process, False)
    assert again.all() == {"a": process}
    other, started = await again.ensure("a", SLEEP, digest="2")  # made from something else
    assert started and other != process and not process.alive()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: raises its priority")
def test_only_control_programs_take_the_priority_of_the_node(rundir: Path) -> None:
    """In a process of its own, whose priority is its to raise, from 0 wherever the tests run."""
    script = f"""
import asyncio, os, pathlib
from headrace.machine import priority
from headrace.machine.processes import Supervisor
def nice_of(pid): return os.getpriority(os.PRIO_PROCESS, pid)
async def main():
    os.setpriority(os.PRIO_PROCESS, 0, 0)
    priority.raise_own()
    supervisor = Supervisor(pathlib.Path({str(rundir)!r}))
    control, _ = await supervisor.ensure("control", {SLEEP!r}, control=True)
    vnf, _ = await supervisor.ensure("vnf", {SLEEP!r})
    while b"sleep" not in pathlib.Path(f"/proc/{{vnf.pid}}/cmdline").read_bytes().split(b"--")[0]:
        await asyncio.sleep(0.01)
    print(nice_of(0), nice_of(control.pid), nice_of(vnf.pid))
    for name in ("control", "vnf"):
        await supervisor.end(name)
asyncio.run(main())
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["-10", "-10", "0"], done.stderr


async def test_found_by_its_mark_without_a_record(supervisor: Supervisor, rundir: Path) -> None:
    process, _ = await supervisor.ensure("a", SLEEP)
    (rundir / "pids" / "a.json").unlink()
    await until(lambda: Supervisor(rundir).find("a") == process)
    assert Supervisor(rundir / "elsewhere").find("a") is None
    await supervisor.end("a")
    assert not process.alive()


async def test_a_reused_pid_is_another_process(supervisor: Supervisor) -> None:
    process, _ = await supervisor.ensure("a", SLEEP)
    assert not ProcessId(process.pid, process.start_ticks + 1).alive()
    ProcessId(process.pid, process.start_ticks + 1).signal(signal.SIGKILL)
    assert process.alive()
    assert ProcessId.of(2**22 + 1) is None


async def test_ends_what_ignores_sigterm_or_is_stopped(supervisor: Supervisor) -> None:
    deaf, _ = await supervisor.ensure("deaf", STUBBORN)
    await until(lambda: "deaf" in supervisor.last_words("deaf"))
    await supervisor.end("deaf", patience_s=0.3)
    assert not deaf.alive()
    stopped, _ = await supervisor.ensure("stopped", SLEEP)
    stopped.signal(signal.SIGSTOP)
    await supervisor.end("stopped")
    assert not stopped.alive()
    await supervisor.end("stopped")  # nothing to do


async def test_pinned(supervisor: Supervisor) -> None:
    core = max(os.sched_getaffinity(0))
    process, _ = await supervisor.ensure("a", SLEEP, cores=[core])
    await until(lambda: os.sched_getaffinity(process.pid) == {core})


async def test_missing_program(supervisor: Supervisor) -> None:
    with pytest.raises(ProcessError, match="cannot start /nonexistent"):
        await supervisor.ensure("a", ["/nonexistent"])
    assert supervisor.all() == {}


async def test_tells_of_an_end_at_once_and_of_its_code(supervisor: Supervisor) -> None:
    ended: asyncio.Queue[str] = asyncio.Queue()
    supervisor.watch(ended.put_nowait)
    process, _ = await supervisor.ensure("a", SLEEP)
    other, _ = await supervisor.ensure("b", [sys.executable, "-c", "raise SystemExit(3)"])
    assert await asyncio.wait_for(ended.get(), 20) == "b"
    assert supervisor.exit_code("b") == 3 and not other.alive()
    process.signal(signal.SIGKILL)
    assert await asyncio.wait_for(ended.get(), 20) == "a"
    assert supervisor.find("a") is None and supervisor.exit_code("a") == -signal.SIGKILL
    assert supervisor.names() == []


async def test_another_supervisor_watches_what_it_adopts(
    supervisor: Supervisor, rundir: Path
) -> None:
    process, _ = await supervisor.ensure("a", SLEEP)
    again = Supervisor(rundir)
    assert again.find("a") == process
    ended: asyncio.Queue[str] = asyncio.Queue()
    again.watch(ended.put_nowait)
    process.signal(signal.SIGKILL)
    assert await asyncio.wait_for(ended.get(), 20) == "a"
    assert again.find("a") is None


def test_descriptors_for_many_graphs() -> None:
    script = """
import resource
from headrace.node.serving import raise_descriptors
_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
print(raise_descriptors() == resource.getrlimit(resource.RLIMIT_NOFILE)[0], hard > 64)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "True"], done.stderr


FIRST = "echo first; while :; do sleep 100 & wait; done"
HANDLES = f"trap 'echo told; exit 0' TERM; {FIRST}"


async def first_process(supervisor: Supervisor, script: str) -> ProcessId:
    """Adopts, as `a`, the first process of a PID namespace, which runs a script of the shell."""
    argv = ["unshare", "--pid", "--fork", "--kill-child", "sh", "-c", script]
    starter, _ = await supervisor.ensure("starter", argv)
    children = Path(f"/proc/{starter.pid}/task/{starter.pid}/children")
    log = supervisor.log_of("starter")
    await until(lambda: children.read_text() != "" and "first" in log.read_text())
    (first,) = await asyncio.to_thread(lambda: children.read_text().split())
    return supervisor.adopt("a", int(first), argv, "")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes a PID namespace")
async def test_a_first_process_without_a_handler_is_not_waited_for(supervisor: Supervisor) -> None:
    process = await first_process(supervisor, FIRST)
    async with asyncio.timeout(60):
        await supervisor.end("a", patience_s=600)
    assert not process.alive()


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes a PID namespace")
async def test_a_first_process_with_a_handler_is_told(supervisor: Supervisor) -> None:
    process = await first_process(supervisor, HANDLES)
    await supervisor.end("a", patience_s=60)
    assert not process.alive() and "told" in supervisor.log_of("starter").read_text()


# Its first thread has ended, so it looks like a zombie, and another goes on, as in a killed switch
# of whose devices the kernel removes one after the other.
DYING = """
import ctypes, os, pathlib, sys, threading, time
def last():
    time.sleep(1.5)
    pathlib.Path(sys.argv[1]).touch()
    os._exit(0)
threading.Thread(target=last).start()
ctypes.CDLL(None).syscall(60, 0)  # exit(2): of this thread
"""


async def test_the_next_one_waits_until_all_of_the_last_has_ended(
    supervisor: Supervisor, rundir: Path
) -> None:
    ended = rundir / "ended"
    dying, _ = await supervisor.ensure("a", [sys.executable, "-c", DYING, str(ended)])
    await until(lambda: not dying.alive())
    assert not await asyncio.to_thread(ended.exists)
    again = Supervisor(rundir)
    _, started = await again.ensure("a", SLEEP)
    assert started and await asyncio.to_thread(ended.exists)
    await again.end("a")
