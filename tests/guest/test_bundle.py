# SPDX-License-Identifier: Apache-2.0
"""The root of a container without an image, as it is made by a node with the umask of a daemon."""

import os
import stat
from pathlib import Path

import pytest

from headrace.engines.oci import Container, make_bundle
from headrace.machine.cgroups import Limits


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives folders to a group")
def test_the_user_of_a_container_passes_its_mount_points(tmp_path: Path) -> None:
    programs = tmp_path / "far" / "programs"
    programs.mkdir(parents=True)
    container = Container(
        name="v", argv=["true"], environment={}, limits=Limits(cores=(0,), memory_mb=64),
        cgroup="/v", user=70_000, group=70_001, node_group=70_002, readable=(programs,),
    )  # fmt: skip
    before = os.umask(0o077)
    try:
        make_bundle(container, tmp_path / "bundles" / "v")
    finally:
        os.umask(before)
    root = tmp_path / "bundles" / "v" / "rootfs"
    assert stat.S_IMODE(root.stat().st_mode) == 0o750 and root.stat().st_gid == 70_002
    place = root / programs.relative_to("/")
    while place != root:
        assert place.stat().st_mode & stat.S_IXOTH, f"{place} cannot be passed"
        place = place.parent
