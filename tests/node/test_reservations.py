# SPDX-License-Identifier: Apache-2.0
"""Cores and memory that pods have: /node/reservations."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.node.api import Api, api_of
from tests.node.graphs import chain

CORES = {"control": [0], "switch": [1], "vnf": [2, 3]}


@pytest.fixture
async def node(rundir: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Api]:
    """A node with two cores for VNFs, on whatever machine."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    async for api in api_of(rundir, cores=CORES, oversubscribe=False):
        yield api


async def _cores(api: Api) -> dict[int, tuple[int, str | None]]:
    report = (await api("GET", "/node/resources")).json()["cores"]
    return {row["core"]: (row["polling"], row["reserved_by"]) for row in report}


async def test_what_is_reserved_is_not_given_to_vnfs(node: Api) -> None:
    made = await node("PUT", "/node/reservations/pod", {"cores": [2], "memory_mb": 64})
    assert made.status_code == 201, made.text
    assert await _cores(node) == {0: (0, None), 1: (1, None), 2: (1, "pod"), 3: (0, None)}
    refused = await node("PUT", "/NF-FG/two", chain("pass", 2))
    assert (refused.status_code, "needs 1 free core" in refused.text) == (400, True)
    assert (await node("PUT", "/NF-FG/one", chain("pass", 1))).status_code == 201
    assert (await _cores(node))[3] == (1, None)
    assert (await node("DELETE", "/node/reservations/pod")).status_code == 204
    assert (await node("PUT", "/NF-FG/one", chain("pass", 2))).status_code == 202


async def test_what_vnfs_have_is_not_reserved(node: Api) -> None:
    assert (await node("PUT", "/NF-FG/one", chain("pass", 1))).status_code == 201
    free = next(core for core, use in (await _cores(node)).items() if core > 1 and not use[0])
    taken = ({2, 3} - {free}).pop()
    refused = await node("PUT", "/node/reservations/pod", {"cores": [taken]})
    assert (refused.status_code, f"[{taken}] are in use" in refused.text) == (409, True)
    assert (await node("PUT", "/node/reservations/pod", {"cores": [free]})).status_code == 201
    again = await node("PUT", "/node/reservations/pod", {"cores": [free], "memory_mb": 1})
    assert again.status_code == 200
    other = await node("PUT", "/node/reservations/other", {"cores": [free]})
    assert other.status_code == 409
    assert (await node("GET", "/node/reservations")).json() == {
        "pod": {"cores": [free], "memory_mb": 1}
    }


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"cores": [1]}, 400),
        ({"cores": [9]}, 400),
        ({"cores": [2, 2]}, 400),
        ({"memory_mb": -1}, 400),
        ({"memory_mb": 1 << 20}, 409),
        ({"more": 1}, 400),
    ],
)
async def test_what_is_not_to_be_had_is_refused(
    node: Api, wanted: dict[str, Any], code: int
) -> None:
    answer = await node("PUT", "/node/reservations/pod", wanted)
    assert answer.status_code == code, answer.text
    assert (await node("GET", "/node/reservations")).json() == {}
    assert (await node("DELETE", "/node/reservations/pod")).status_code == 404


async def test_it_is_there_after_a_restart(rundir: Path) -> None:
    async for api in api_of(rundir):
        await api("PUT", "/node/reservations/pod", {"memory_mb": 32})
    async for api in api_of(rundir):
        listed = (await api("GET", "/node/reservations")).json()
        assert listed == {"pod": {"cores": [], "memory_mb": 32}}
