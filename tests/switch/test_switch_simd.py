# SPDX-License-Identifier: Apache-2.0
"""--simd: which vector instructions the packet path uses, and what `show` says of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.machine.programs import find_program
from tests.support.switch import running_switch

pytestmark = [pytest.mark.root, pytest.mark.dpdk]


#: What Linux calls the instructions of each level in /proc/cpuinfo.
_NEEDS = {
    "portable": (),
    "avx2": ("avx2", "bmi1", "bmi2", "fma", "movbe", "abm", "popcnt"),
    "avx512": ("avx512vbmi", "avx512vl", "avx512bw", "avx512dq"),
}


def _has(level: str) -> bool:
    flags = set(Path("/proc/cpuinfo").read_text().split())
    return flags.issuperset(_NEEDS[level])


@pytest.mark.parametrize("level", _NEEDS)
def test_show_says_what_was_asked_for_or_the_switch_refuses(rundir: Path, level: str) -> None:
    if _has(level):
        with running_switch(rundir, extra=("--no-huge", "--simd", level)) as switch:
            assert switch.call("show")["simd"] == level
        return
    refused = subprocess.run(
        [find_program("headrace-switch"), "--db=unix:db", f"--rundir={rundir}", f"--simd={level}"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert refused.returncode == 1
    assert f"--simd {level}" in refused.stderr


def test_auto_is_the_best_there_is(rundir: Path) -> None:
    best = [level for level in _NEEDS if _has(level)][-1]
    with running_switch(rundir, extra=("--no-huge",)) as switch:
        assert switch.call("show")["simd"] == best
