# SPDX-License-Identifier: Apache-2.0
"""node.yaml: defaults, mistakes named by their key; hugepages wanted and lacking."""

from pathlib import Path

import pytest

from headrace.machine import eal
from headrace.node.config import from_dict, load, usable_cores
from headrace.node.errors import ConfigError
from headrace.node.node import Node
from tests.node.crashing import SETTINGS
from tests.node.fakes import FakeDriver, World


def test_defaults_fit_this_machine() -> None:
    config = load(None)
    assert config.cores.switch == usable_cores()[-1:]
    assert set(config.cores.vnf) <= set(usable_cores())


def test_the_switch_sleeps_only_on_cores_that_it_shares() -> None:
    first, last = usable_cores()[0], usable_cores()[-1]
    if first == last:
        pytest.skip("needs two cores")
    apart = {"cores": {"control": [first], "switch": [last], "vnf": [first]}}
    beside = {"cores": {"control": [first], "switch": [first], "vnf": [last]}}
    with_vnfs = {"cores": {"control": [first], "switch": [last], "vnf": [last]}}
    assert from_dict({**apart, "oversubscribe": True}).switch_sleep_us == 0
    assert from_dict({**beside, "sleep_us": 70}).switch_sleep_us == 70
    assert from_dict({**beside, "idle": "poll"}).switch_sleep_us == 0
    assert from_dict({**with_vnfs, "oversubscribe": True}).switch_sleep_us == 250


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("colour: red", "colour: there is no such key"),
        ("cores: {switch: [999]}", "cores: switch: this machine has no core 999"),
        ("cores: {vnf: []}", "cores: vnf: at least one core is needed"),
        ("ports: [{name: a b, kind: memif}]", "ports[0].name: String should match"),
        ("ports: [{name: a, kind: usb}]", "ports[0].kind: Input should be"),
        (
            "ports: [{name: a, kind: memif}, {name: a, kind: memif}]",
            "ports: two ports are named a",
        ),
        ("idle: rest", "idle: Input should be"),
        ("burst: 65", "burst: Input should be less than or equal to 64"),
        ("memory_mb: 100", "more than switch_memory_mb"),
        ("[", "no YAML"),
    ],
)
def test_mistakes(tmp_path: Path, text: str, complaint: str) -> None:
    file = tmp_path / "node.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load(file)
    assert str(caught.value).startswith(str(file)) and complaint in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        load(tmp_path / "node.yaml")


def test_wrong_template_names_file_and_key(tmp_path: Path, rundir: Path) -> None:
    file = tmp_path / "t.yaml"
    file.write_text("id: x\nname: x\nfunctional-capability: x\nengine: process\n")
    config = from_dict({**SETTINGS, "templates": [str(tmp_path)]})
    with pytest.raises(ConfigError, match=r"t\.yaml: function: is missing"):
        Node(config, rundir, FakeDriver(World(rundir / "world.json")))


def test_hugepages_lacking(rundir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    free = tmp_path / "free_hugepages"
    free.write_text("7")
    (tmp_path / "resv_hugepages").write_text("4")
    mounts = tmp_path / "mounts"
    mounts.write_text("none /dev/hugepages hugetlbfs rw 0 0\n")
    monkeypatch.setattr(eal, "_PAGES", tmp_path)
    monkeypatch.setattr(eal, "_MOUNTS", mounts)
    driver = FakeDriver(World(rundir / "world.json"))
    with pytest.raises(ConfigError, match="hugepages: 6 MB are free in 2 MiB hugepages, 256 MB"):
        Node(from_dict({**SETTINGS, "hugepages": "require"}), rundir, driver)
    node = Node(from_dict(SETTINGS), rundir, driver)
    assert not node.hugepages and "make setup" in node.hugepages_note
    free.write_text("1000")
    node = Node(from_dict({**SETTINGS, "hugepages": "require"}), rundir, driver)
    assert node.hugepages and node.hugepages_note == ""
    mounts.write_text("proc /proc proc rw 0 0\n")
    assert "no hugetlbfs is mounted" in (eal.hugepages_lacking(1) or "")


def test_a_dpdk_plugin_has_an_absolute_path() -> None:
    assert from_dict({"dpdk_plugins": ["/opt/a.so"]}).dpdk_plugins == [Path("/opt/a.so")]
    for wrong in ("a.so", "/opt/a b.so"):
        with pytest.raises(ConfigError, match="absolute path without blanks"):
            from_dict({"dpdk_plugins": [wrong]})
