# SPDX-License-Identifier: Apache-2.0
"""The OCI image of a node, read as a node reads any image, and its programs run in it by chroot."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.engines.images.layers import Budget, unpack
from headrace.engines.images.sources import local_source

ROOT = Path(__file__).resolve().parents[2]
IMAGE = ROOT / "build-image/headrace.tar"

pytestmark = [
    pytest.mark.full,
    pytest.mark.root,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: unpacks owners, uses chroot"),
    pytest.mark.skipif(not IMAGE.exists(), reason="the image is not built (make image)"),
]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The image's root directory."""
    place = tmp_path_factory.mktemp("image") / "root"  # made by unpack
    source = local_source(IMAGE)
    image = source.resolve("latest")
    unpack(image, source, place, Budget())
    yield place
    shutil.rmtree(place, ignore_errors=True)


def within(root: Path, *words: str) -> str:
    """What a program writes in the image, with the image's variables."""
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "HEADRACE_BUILD": "/opt/headrace/bin",
        "PYTHONPATH": "/opt/headrace/lib",
    }
    done = subprocess.run(
        ["chroot", str(root), *words], env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


@pytest.mark.parametrize("program", ["headrace-switch", "headrace-vnf", "headrace-traffic"])
def test_programs_have_their_libraries(root: Path, program: str) -> None:
    assert "not found" not in within(root, "ldd", f"/opt/headrace/bin/{program}")
    within(root, f"/opt/headrace/bin/{program}", "--help")


@pytest.mark.parametrize(
    "program", ["ovsdb-server", "ovs-vsctl", "ip", "ethtool", "nft", "runc", "tini"]
)
def test_the_nodes_tools_are_there(root: Path, program: str) -> None:
    assert within(root, "sh", "-c", f"command -v {program}").startswith("/")


def test_the_command_works(root: Path) -> None:
    assert "up" in within(root, "headrace", "--help")
    said = within(
        root,
        "python3",
        "-c",
        "from headrace.machine.programs import find_program; from headrace.node.node import Node;"
        "from importlib.metadata import version;"
        "print(find_program('headrace-switch'), version('headrace'))",
    )
    assert said.startswith("/opt/headrace/bin/headrace-switch 0.")


def test_the_plugins_are_static(root: Path) -> None:
    """They are copied to hosts of any distribution."""
    for name in ("headrace-cni", "headrace-device-plugin"):
        plugin = root / "opt/headrace/bin" / name
        said = subprocess.run(["ldd", str(plugin)], capture_output=True, text=True)
        assert "not a dynamic executable" in said.stderr
        assert plugin.stat().st_mode & 0o111
