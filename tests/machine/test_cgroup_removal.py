# SPDX-License-Identifier: Apache-2.0
"""A group goes from all hierarchies: runc makes a container's in those without limits, too."""

from pathlib import Path

from headrace.machine.cgroups import Group, find_hierarchies


def test_a_group_is_removed_from_hierarchies_without_controllers_of_ours(tmp_path: Path) -> None:
    mounts = tmp_path / "mounts"
    options = {"cpu": "cgroup rw,cpu", "blkio": "cgroup rw,blkio", "unified": "cgroup2 rw"}
    mounts.write_text(
        "".join(f"cgroup {tmp_path / name} {kind} 0 0\n" for name, kind in options.items())
    )
    for name in options:
        (tmp_path / name / "node" / "vnf").mkdir(parents=True)
        (tmp_path / name / "other").mkdir()
    Group("node", find_hierarchies(mounts), ("cpu",)).remove_all()
    for name in options:
        assert [place.name for place in (tmp_path / name).iterdir()] == ["other"]
