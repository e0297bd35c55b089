# SPDX-License-Identifier: Apache-2.0
"""The bench's own self-test: its parts, and that a fault reaches its rows."""

import asyncio
import json
import struct
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from headrace.bench.peers import frames
from headrace.bench.peers.systems import PeerError
from headrace.bench.rows import Row, row
from headrace.bench.selftest import registry
from headrace.cli import app


def test_parts_are_chosen_by_name() -> None:
    assert [part.name for part in registry.chosen(" slowed-vnf, searches")] == [
        "slowed-vnf",
        "searches",
    ]
    assert registry.chosen("") == list(registry.PARTS)
    assert len({part.name for part in registry.PARTS}) == len(registry.PARTS)
    with pytest.raises(ValueError, match="'nothing' is none of"):
        registry.chosen("nothing")


async def test_each_part_says_how_long_it_took() -> None:
    async def waits(_: registry.Settings) -> list[Row]:
        await asyncio.sleep(1.1)
        return [row("made", [1.0], "")]

    async def fails(_: registry.Settings) -> list[Row]:
        raise PeerError("no hugepages")

    said: list[str] = []
    parts = [registry.Part("long", waits), registry.Part("failing", fails)]
    outcome = await registry.run(parts, registry.Settings(), said.append)
    assert [(one.name, one.skipped) for one in outcome.rows] == [
        ("made", None), ("failing", "no hugepages")]  # fmt: skip
    assert outcome.took_s["long"] >= 1.1 > outcome.took_s["failing"]
    assert said == ["self-test: long", "self-test: long took 0:01",
                    "self-test: failing", "self-test: failing took 0:00"]  # fmt: skip


def test_a_frames_file_says_when_frames_are_due(tmp_path: Path) -> None:
    file = tmp_path / "a.frames"
    frames.write(file, frames.udp_frames(
        eth_dst=bytes(6), eth_src=bytes(6), ipv4_src=np.array([1], dtype="u4"),
        ipv4_dst=np.array([2], dtype="u4")), None,
        frames.Pace(pps=1e6, burst=4, poisson=True, spin=7))  # fmt: skip
    content = file.read_bytes()
    header = struct.unpack_from("<8sIIIIdIII", content)
    assert header == (frames.MAGIC, 1, 60, 64, 0, 1e6, 4, 1, 7)
    assert len(content) == 64 + 64


@pytest.mark.root
@pytest.mark.dpdk
@pytest.mark.timeout(180)
def test_the_command_finds_a_fault_in_a_real_switch() -> None:
    done = CliRunner().invoke(
        app,
        ["bench", "selftest", "--only", "slowed-switch,throttled-generator,stolen-core",
         "--repeats", "1", "--seconds", "0.1", "--json"],
    )  # fmt: skip
    assert done.exit_code in (0, 1), done.output
    rows = {row["name"]: row for row in json.loads(done.stdout)["rows"]}
    assert "switch slowed by 400 cycles a packet: cost" in rows
    assert all(row["skipped"] is None for row in rows.values()), rows
    # Whoever else uses the machine, a source with a rate is never taken for the switch.
    assert rows["generator throttled to 25%: verdict generator"]["goal"] == 100.0


def test_the_cost_bench_names_the_switches_that_it_knows() -> None:
    done = CliRunner().invoke(app, ["bench", "cost", "--switches", "headrace,vpp"])
    assert done.exit_code == 1 and "give some of headrace, ovs-dpdk" in done.output
