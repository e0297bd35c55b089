# SPDX-License-Identifier: Apache-2.0
"""What the machine has, beside what its own tools say."""

import json
import subprocess
from pathlib import Path

from headrace.machine.hardware import accelerators, report


def _said(*words: str) -> str:
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def test_the_machine_is_as_its_tools_say(tmp_path: Path) -> None:
    found = report([tmp_path])
    lscpu = {
        row["field"].rstrip(":"): row["data"] for row in json.loads(_said("lscpu", "-J"))["lscpu"]
    }
    assert found["cpu"]["number"] == int(lscpu["CPU(s)"])
    assert found["cpu"]["architecture"] == lscpu["Architecture"]
    assert sorted(core for node in found["cpu"]["numa"] for core in node["cores"]) == list(
        range(found["cpu"]["number"])
    )
    total, available = _said("df", "-B1", "--output=size,avail", str(tmp_path)).split()[2:]
    assert found["disks"][0]["total"] == int(total)
    assert abs(found["disks"][0]["free"] - int(available)) < 0.1 * int(total)
    memory = int(_said("grep", "MemTotal", "/proc/meminfo").split()[1]) << 10
    assert found["memory"]["total"] == memory > found["memory"]["available"] > 0
    links = {link["ifname"]: link for link in json.loads(_said("ip", "-j", "link"))}
    assert found["nics"], "there is the loopback interface at least"
    for nic in found["nics"]:
        assert links[nic["name"]]["mtu"] == nic["mtu"]
        assert links[nic["name"]]["address"] == nic["mac"]


def test_coprocessors_are_told_from_other_devices(tmp_path: Path) -> None:
    classes = {1: "0x020000", 2: "0x0b4000", 3: "0x120000"}
    for address, code in ((f"0000:00:0{number}.0", code) for number, code in classes.items()):
        place = tmp_path / address
        place.mkdir()
        (place / "class").write_text(code + "\n")
        (place / "vendor").write_text("0x8086\n")
        (place / "device").write_text("0x37c8\n")
    assert [each["address"] for each in accelerators(tmp_path)] == ["0000:00:02.0", "0000:00:03.0"]
    assert accelerators(tmp_path)[0]["vendor"] == 0x8086
