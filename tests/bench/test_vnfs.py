# SPDX-License-Identifier: Apache-2.0
"""`headrace bench vnfs`: its frames, and one short measurement of real VNFs."""

import asyncio
import ipaddress
import os

import numpy as np
import pytest

from headrace.bench.vnfs import suite
from headrace.bench.vnfs.cases import CASES, in_gre, plain, tagged
from headrace.bench.vnfs.mixes import MIXES, Mix, frames_of
from headrace.bench.vnfs.program import VnfError


def test_the_mix_is_that_of_its_weights() -> None:
    imix = next(mix for mix in MIXES if mix.name == "IMIX")
    assert imix.mean == pytest.approx(353.83, abs=0.01)
    frames, lengths = frames_of(imix, plain())
    assert lengths is not None
    assert set(lengths.tolist()) == {60, 566, 1514}
    assert (lengths == 60).mean() == pytest.approx(28 / 48, abs=0.01)
    for frame, length in zip(frames[:50], lengths[:50], strict=True):
        assert int.from_bytes(bytes(frame[16:18])) == length - 14  # IPv4's total length
        assert not frame[length:].any()


def test_one_size_needs_no_lengths() -> None:
    frames, lengths = frames_of(Mix("64B", (64,)), plain())
    assert lengths is None
    assert frames.shape == (1000, 60)


def test_subscribers_frames_are_tagged_twice_and_tunnelled() -> None:
    frame = bytes(tagged(60)[4])
    assert frame[12:20].hex() == "88a8006481000005"
    assert str(ipaddress.IPv4Address(frame[34:38])) == "100.64.1.4"
    frame = bytes(in_gre(60)[4])
    assert frame[23] == 47
    assert frame[34:42].hex() == "200008000006 4005".replace(" ", "")
    assert str(ipaddress.IPv4Address(frame[58:62])) == "100.64.1.4"


needs_cores = pytest.mark.skipif(
    os.geteuid() != 0 or (os.cpu_count() or 1) <= suite.CORE, reason="needs root and two cores"
)


def _measure(*names: str) -> dict[str, float | None]:
    chosen = [case for case in CASES if case.name in names]
    rows, manifest = asyncio.run(suite.run(suite.Plan(1, 0.05), chosen, print))
    assert set(manifest["functions"]) == set(names)
    return {row.name: row.value for row in rows}


@needs_cores
def test_measures_real_functions() -> None:
    values = _measure("sink", "source", "bng-down")
    assert len(values) == 2 * (3 + 1 + 3)
    assert all(value is not None and value > 0 for value in values.values())


@needs_cores
def test_a_gateway_encrypts_what_the_base_station_decrypts() -> None:
    values = _measure("basestation-down")
    assert len(values) == 2 * 3


@needs_cores
def test_a_function_that_loses_packets_is_no_figure() -> None:
    lossy = next(case for case in CASES if case.name == "router")
    routeless = {**lossy.configuration, "routes": []}
    broken = type(lossy)(lossy.name, lossy.function, lossy.frames, routeless)
    with pytest.raises(VnfError, match=r"0 of \d+ packets went out; dropped: {'no_route'"):
        asyncio.run(suite.run(suite.Plan(1, 0.05), [broken], print))


def test_every_size_has_all_its_flows() -> None:
    for case in CASES:
        if case.frames is not None and not case.name.endswith("-down"):
            assert {len(case.frames(mix.sizes[0] - 4)) for mix in MIXES} == {1000}
            assert len(np.unique(case.frames(60), axis=0)) == 1000
