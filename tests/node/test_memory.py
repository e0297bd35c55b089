# SPDX-License-Identifier: Apache-2.0
"""Graphs that ask for more memory than the machine has."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headrace.engines.base import VnfSpec
from headrace.machine.eal import available_mb
from headrace.node.errors import GraphRefused
from headrace.node.planning.memory import Memory


def vnf(name: str, memory_mb: int, engine: str = "process") -> VnfSpec:
    return VnfSpec(
        name=f"n-g-{name}",
        graph="g",
        vnf=name,
        template="t",
        engine=engine,
        function="pass",
        ports=(),
        memory_mb=memory_mb,
    )


def pages_of(free_mb: int) -> Callable[[int], str | None]:
    return lambda wanted: f"{free_mb} MB are free" if wanted > free_mb else None


def test_ordinary_memory_is_what_the_kernel_has_available() -> None:
    memory = Memory(hugepages=False, available=lambda: 300)
    assert memory.check([vnf("a", 100), vnf("b", 200)]) == []
    with pytest.raises(GraphRefused, match=r"VNFs a, b: need 301 MB .* 300 MB available"):
        memory.check([vnf("a", 100), vnf("b", 201)])


def test_an_update_counts_what_it_gives_back() -> None:
    memory = Memory(hugepages=False, available=lambda: 50)
    stays = vnf("a", 4000)
    assert memory.check([stays, vnf("b", 150)], held=[stays, vnf("b", 100)]) == []
    with pytest.raises(GraphRefused, match="VNFs b: need 51 MB"):
        memory.check([stays, vnf("b", 151)], held=[stays, vnf("b", 100)])


def test_too_few_hugepages_are_a_warning_for_who_can_do_without() -> None:
    memory = Memory(hugepages=True, lacking=pages_of(64), available=lambda: 1000)
    assert memory.check([vnf("a", 64)]) == []
    [warning] = memory.check([vnf("a", 65)])
    assert warning == "VNFs a: without hugepages, so slower: 64 MB are free"
    with pytest.raises(GraphRefused, match="VNFs a, m: 64 MB are free"):
        memory.check([vnf("a", 65), vnf("m", 1, engine="vm")])
    with pytest.raises(GraphRefused, match="need 1001 MB"):
        memory.check([vnf("a", 1001)])


def test_required_hugepages_are_required_of_every_vnf() -> None:
    memory = Memory(hugepages=True, required=True, lacking=pages_of(64), available=lambda: 1000)
    with pytest.raises(GraphRefused, match="64 MB are free"):
        memory.check([vnf("a", 65)])


def test_this_machine_has_memory() -> None:
    assert available_mb() > 0


def test_what_is_in_hugepages_is_no_more_than_the_machine_has() -> None:
    granted = {"total": 512, "used": 256, "free": 256}
    memory = Memory(hugepages=True, free=lambda: 300)
    assert memory.hugepages_report(granted) == granted
    memory = Memory(hugepages=True, free=lambda: 100)
    assert memory.hugepages_report(granted) == {"total": 512, "used": 256, "free": 100}
    memory = Memory(hugepages=True, free=lambda: None)
    assert memory.hugepages_report(granted)["free"] == 0
    memory = Memory(hugepages=False, free=lambda: 300)
    assert memory.hugepages_report(granted) == {"total": 0, "used": 0, "free": 0}
