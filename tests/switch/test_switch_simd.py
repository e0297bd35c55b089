# SPDX-License-Identifier: Apache-2.0
"""--simd: which vector instructions the packet path uses, and what `show` says of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from headrace.machine.programs import find_program
from tests.support.switch import running_switch

pytestmark = [pytest.mark.root, pytest.mark.dpdk]


def _has_avx512() -> bool:
    flags = Path("/proc/cpuinfo").read_text().split()
    return all(flag in flags for flag in ("avx512vbmi", "avx512vl", "avx512bw", "avx512dq"))


def test_show_says_what_was_asked_for(rundir: Path) -> None:
    with running_switch(rundir, extra=("--no-huge", "--simd", "portable")) as switch:
        assert switch.call("show")["simd"] == "portable"


def test_avx512_or_an_error(rundir: Path) -> None:
    if _has_avx512():
        with running_switch(rundir, extra=("--no-huge", "--simd", "avx512")) as switch:
            assert switch.call("show")["simd"] == "avx512"
        return
    refused = subprocess.run(
        [find_program("headrace-switch"), "--db=unix:db", f"--rundir={rundir}", "--simd=avx512"],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert refused.returncode == 1
    assert "--simd avx512" in refused.stderr
