# SPDX-License-Identifier: Apache-2.0
"""What needs another kernel than this machine's, in the lab guest (lab.py)."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.guest.lab import Outcome, require_lab, require_sriov, run

pytestmark = [pytest.mark.root, pytest.mark.full, pytest.mark.timeout(1800)]

PYTEST = (".venv/bin/python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--timeout", "900")


def passed(outcome: Outcome) -> int:
    """How many tests passed in the guest; fails with its output if one did not."""
    assert outcome.status == 0, outcome.output
    found = re.search(r"^(\d+) passed", outcome.output, re.MULTILINE)
    assert found is not None, outcome.output
    return int(found[1])


def test_a_command_sees_this_machine_s_files_and_leaves_none(tmp_path: Path) -> None:
    require_lab()
    here = tmp_path / "here"
    here.write_text("seen")
    script = (
        f"cat {here}; uname -r; echo lost >{tmp_path}/written; echo kept >$LAB_OUT/kept; exit 3"
    )
    outcome = run(["sh", "-c", script], tmp_path / "out", timeout_s=300)
    assert outcome.status == 3
    seen, release = outcome.output.split("seen", 1)[0], outcome.output.split("seen", 1)[1]
    assert seen == "" and release.strip() != os.uname().release
    assert (tmp_path / "out" / "kept").read_text() == "kept\n"
    assert not (tmp_path / "written").exists()


def test_the_contract_of_drivers_holds_on_the_kernel_s_datapath(tmp_path: Path) -> None:
    """All of tests/switches for `ovs` with `datapath: kernel`, which this kernel may not have."""
    require_lab()
    words = [*PYTEST, "tests/switches", "-m", "full or not full", "-k", "ovs:kernel"]
    outcome = run(words, tmp_path, modules=("openvswitch", "veth"), timeout_s=1700)
    assert passed(outcome) >= 100


def test_the_kernel_serves_a_guest_s_rings(tmp_path: Path) -> None:
    """vhost-net: a guest in the lab guest."""
    require_lab()
    words = [*PYTEST, "tests/guest/test_guest.py", "-k", "test_the_kernel_serves_a_guest_itself"]
    modules = ("vhost_net", "tun", "veth")
    outcome = run(words, tmp_path, modules=modules, hugepages=256, timeout_s=1700)
    assert passed(outcome) == 1


def test_virtual_functions_of_an_emulated_adapter(tmp_path: Path) -> None:
    """They come, take settings, go to vfio-pci and into a guest, and back: QEMU's igb."""
    require_sriov()
    words = [*PYTEST, "tests/guest/test_sriov.py"]
    modules = ("igb", "igbvf", "vfio_pci")
    outcome = run(words, tmp_path, modules=modules, sriov=True, timeout_s=1700)
    assert passed(outcome) == 3
