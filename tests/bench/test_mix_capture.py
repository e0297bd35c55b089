# SPDX-License-Identifier: Apache-2.0
"""Captures made of a published mix: sizes in its ratio, headers that are right, flows by Zipf."""

import math
import struct
from collections import Counter
from pathlib import Path

import pytest

from headrace.bench.errors import ScenarioError
from headrace.bench.graph import streams
from headrace.bench.mix_capture import FRAMES, frames_of, write
from headrace.bench.scenario import load
from headrace.results.frame_sizes import lengths_of, mean_bytes, mean_of_mix


def test_a_capture_has_the_mix_s_sizes_and_correct_headers(tmp_path: Path) -> None:
    frames = frames_of("imix-nfvbench", 100)
    sizes = Counter(len(frame) + 4 for frame in frames)
    assert {size: round(12 * times / len(frames)) for size, times in sizes.items()} == {
        64: 7, 594: 4, 1518: 1
    }  # fmt: skip
    for frame in frames[:50]:
        words = struct.unpack("!10H", frame[14:34])
        total = sum(words)
        total = (total & 0xFFFF) + (total >> 16)
        assert total == 0xFFFF
        assert int.from_bytes(frame[16:18], "big") == len(frame) - 14
        assert frame[23] in (6, 17)
    flows = Counter(frame[26:38] for frame in frames).most_common()
    assert flows[0][1] > 5 * flows[30][1] and len(flows) > 60
    assert frames_of("imix-nfvbench", 100) == frames
    path = tmp_path / "mix.pcap"
    write(path, "imix-nfvbench", 100)
    lengths = list(lengths_of(path))
    assert abs(len(lengths) - FRAMES) < 4
    assert mean_bytes(f"pcap:{path}") == pytest.approx(mean_of_mix("imix-nfvbench"), rel=0.001)
    assert (
        mean_bytes("pcap:imix-csit") == mean_bytes("imix-csit") == pytest.approx(353.83, abs=0.01)
    )


def test_lengths_of_other_captures(tmp_path: Path) -> None:
    big = tmp_path / "big.pcap"
    big.write_bytes(
        struct.pack(">IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1)
        + struct.pack(">IIII", 0, 0, 10, 1000) + bytes(10)
        + struct.pack(">IIII", 0, 0, 40, 40) + bytes(40)
    )  # fmt: skip
    assert list(lengths_of(big)) == [1004, 64]
    block = struct.pack("<IIIIIII", 6, 36, 0, 0, 0, 2, 500) + bytes(4) + struct.pack("<I", 36)
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    (tmp_path / "new.pcapng").write_bytes(section + block)
    assert list(lengths_of(tmp_path / "new.pcapng")) == [504]
    (tmp_path / "no").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="no pcap"):
        list(lengths_of(tmp_path / "no"))
    assert math.isnan(mean_bytes(f"pcap:{tmp_path}/gone.pcap"))


def test_a_scenario_takes_captures_for_one_chain(tmp_path: Path) -> None:
    text = (
        "title: t\nquestion: q\ngraphs: [{%s}]\nsubjects: [{switch: headrace, ports: %s}]\n"
        "traffic: {sizes: ['pcap:imix-csit', 'pcap:/a/b.pcap']}\nmeasure: {overload: true}\n"
    )
    path = tmp_path / "one.yaml"
    path.write_text(text % ("shape: chain, vnfs: [1]", "memif"))
    assert [case.size for case in load(path).cases()] == ["pcap:imix-csit", "pcap:/a/b.pcap"]
    (row,) = streams("chain", 1, "pcap:/a/b.pcap", 1, "a", "b")
    assert row == {"name": "s0", "tx_port": "a", "rx_port": "b", "pcap": "/a/b.pcap"}
    for graph, ports in (
        ("shape: parallel, vnfs: [2]", "memif"),
        ("shape: p2p", "in-process"),
    ):
        path.write_text(text % (graph, ports))
        with pytest.raises(ScenarioError, match="by a generator, to one VNF or chain"):
            load(path)
