# SPDX-License-Identifier: Apache-2.0
"""KVM counts as usable where a guest has run, and not where one only could."""

import shutil
from pathlib import Path

import pytest

from headrace.engines import kvm_probe
from headrace.engines.kvm_probe import usable_accelerator, why_not
from headrace.engines.qemu import PROGRAM


def program(tmp_path: Path, text: str) -> str:
    file = tmp_path / "qemu"
    file.write_text(f"#!/bin/sh\n{text}\n")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("exit 33", None),
        ("exit 0", "ended with 0"),
        ("echo 'Could not access KVM' >&2; exit 1", "ended with 1: Could not access KVM"),
        ("exec sleep 100", "not ended after 0.3 s"),
    ],
)
def test_what_the_guest_does_decides(tmp_path: Path, text: str, reason: str | None) -> None:
    patience_s = 0.3 if "sleep" in text else 30
    found = why_not("kvm", program(tmp_path, text), patience_s)
    assert found is None if reason is None else reason in str(found)


def test_a_program_that_is_not_there(tmp_path: Path) -> None:
    assert "No such file" in str(why_not("kvm", str(tmp_path / "none")))


@pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not installed")
def test_the_sector_ends_a_real_machine() -> None:
    assert why_not("tcg", patience_s=60) is None


@pytest.mark.parametrize(
    ("flags", "reason", "expected"),
    [("vmx", None, "kvm"), ("svm", "it hangs", "tcg"), ("sse", None, "tcg")],
)
def test_device_processor_and_trial(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    flags: str,
    reason: str | None,
    expected: str,
) -> None:
    (tmp_path / "cpuinfo").write_text(f"processor : 0\nflags\t\t: fpu {flags}\n")
    monkeypatch.setattr(kvm_probe, "_CPUS", tmp_path / "cpuinfo")
    monkeypatch.setattr(kvm_probe, "_DEVICE", tmp_path)
    monkeypatch.setattr(kvm_probe, "why_not", lambda: reason)
    usable_accelerator.cache_clear()
    assert usable_accelerator() == expected
    monkeypatch.setattr(kvm_probe, "_DEVICE", tmp_path / "none")
    usable_accelerator.cache_clear()
    assert usable_accelerator() == "tcg"
    usable_accelerator.cache_clear()
