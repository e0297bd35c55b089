# SPDX-License-Identifier: Apache-2.0
"""Health and readiness: without a token, and true."""

from collections.abc import Collection
from pathlib import Path

import pytest

from headrace.switches.base import SwitchError
from tests.node.api import Api, api_of


async def test_they_need_no_token_but_reading_alone(rundir: Path) -> None:
    async for api in api_of(rundir, rest={"login": True}):
        assert (await api("GET", "/health")).json() == {"status": "ok"}
        assert (await api("GET", "/ready")).json() == {"ready": True}
        for method, path in (("POST", "/health"), ("DELETE", "/ready"), ("GET", "/healthy")):
            assert (await api(method, path)).status_code == 401, path


async def test_a_node_whose_switch_lacks_something_is_not_ready(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def lost(ports: Collection[str]) -> set[str]:
        return {"p1"}

    async def silent(ports: Collection[str]) -> set[str]:
        raise SwitchError("no answer")

    for missing, told in ((lost, "port p1"), (silent, "an answer of the switch")):
        monkeypatch.setattr(api.node.driver, "missing", missing)
        answer = await api("GET", "/ready")
        assert answer.status_code == 503
        assert answer.json()["message"] == f"not ready; missing: {told}"
        assert (await api("GET", "/health")).status_code == 200
    monkeypatch.setattr(api.node.driver, "watched", lambda: ("switch",))
    assert "missing: switch" in (await api("GET", "/ready")).json()["message"]
    monkeypatch.undo()
    api.node.paused = True
    assert "is paused" in (await api("GET", "/ready")).json()["message"]
    api.node.paused = False
    assert (await api("GET", "/ready")).status_code == 200
