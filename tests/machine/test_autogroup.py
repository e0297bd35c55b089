# SPDX-License-Identifier: Apache-2.0
"""Sessions of pollers that share a core: read, told and made equal."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.machine.autogroup import (
    level,
    nice_by_core,
    own_nice,
    processes_of,
    session_of,
    set_nice,
    unequal,
)


def fake(proc: Path, pid: int, group: int, nice: int) -> Path:
    """A thread's folder of a process whose session has this nice value."""
    thread = proc / str(pid) / "task" / str(pid)
    thread.mkdir(parents=True)
    (proc / str(pid) / "autogroup").write_text(f"/autogroup-{group} nice {nice}\n")
    (proc / str(pid) / "cgroup").write_text("3:pids:/a\n2:cpu,cpuacct:/\n0::/\n")
    return thread


def test_values_are_told_by_core_and_unequal_ones_with_their_core(tmp_path: Path) -> None:
    threads = [fake(tmp_path, pid, pid, nice) for pid, nice in ((7, -20), (8, 0), (9, 0))]
    found = nice_by_core({0: threads[:2], 1: threads[2:]}, tmp_path)
    assert found == {"0": {"7": -20, "8": 0}, "1": {"9": 0}}
    told = unequal(found)
    assert "core 0: -20, 0" in told and "core 1" not in told
    assert unequal({"0": {"7": -20, "8": -20}, "1": {"9": 0}}) == ""
    assert processes_of([threads[0], threads[0], threads[1]]) == [7, 8]


def test_a_process_in_a_control_group_of_the_cpus_is_weighed_by_that(tmp_path: Path) -> None:
    threads = [fake(tmp_path, pid, pid, nice) for pid, nice in ((7, -20), (8, 0))]
    (tmp_path / "8" / "cgroup").write_text("2:cpu,cpuacct:/headrace-1/vnf0\n0::/\n")
    assert nice_by_core({0: threads}, tmp_path) == {"0": {"7": -20}}


def test_without_autogroups_nothing_is_known_and_nothing_is_uneven(tmp_path: Path) -> None:
    (tmp_path / "7" / "task" / "7").mkdir(parents=True)
    assert session_of(7, tmp_path) is None and set_nice(7, -20, tmp_path)
    assert nice_by_core({0: [tmp_path / "7" / "task" / "7"]}, tmp_path) == {"0": {}}
    assert unequal({"0": {}}) == ""


def test_levelling_writes_the_lowest_value_of_the_core_only(tmp_path: Path) -> None:
    threads = [fake(tmp_path, pid, pid, nice) for pid, nice in ((7, -20), (8, 0), (9, 5))]
    assert level({0: threads[:2], 1: threads[2:]}, tmp_path) == 1
    # A file of the kernel takes the number; this one holds what was written.
    assert (tmp_path / "8" / "autogroup").read_text() == "-20"
    assert "nice 5" in (tmp_path / "9" / "autogroup").read_text()
    assert "nice -20" in (tmp_path / "7" / "autogroup").read_text()


@pytest.fixture
def sessions() -> Iterator[list[int]]:
    if own_nice() is None:
        pytest.skip("the kernel has no autogroups")
    if os.geteuid() != 0:
        pytest.skip("raising a session's priority needs root")
    made = [subprocess.Popen(["/bin/sleep", "60"], start_new_session=True) for _ in range(2)]
    try:
        yield [one.pid for one in made]
    finally:
        for one in made:
            one.kill()
            one.wait()


def test_two_sessions_of_the_kernel_are_made_equal(sessions: list[int]) -> None:
    assert set_nice(sessions[0], -5)
    threads = {0: [Path(f"/proc/{pid}/task/{pid}") for pid in sessions]}
    assert unequal(nice_by_core(threads))
    assert level(threads) == 1
    assert unequal(nice_by_core(threads)) == ""
    assert {found.nice for pid in sessions if (found := session_of(pid))} == {-5}
