# SPDX-License-Identifier: Apache-2.0
"""The factor by which a slow machine's limits are multiplied."""

import asyncio
from pathlib import Path

import httpx
import pytest
from typer.testing import CliRunner

from headrace.bench.errors import DeviceError
from headrace.bench.node_client import NodeClient
from headrace.cli import app
from headrace.machine.patience import PATIENCE_VARIABLE, PatienceError, patient
from headrace.switches.openflow import OpenFlowSession


def test_limits_are_as_they_are_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PATIENCE_VARIABLE, raising=False)
    assert patient(60.0) == 60.0
    monkeypatch.setenv(PATIENCE_VARIABLE, "")
    assert patient(60.0) == 60.0


def test_the_variable_multiplies_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, "2.5")
    assert patient(60.0) == 150.0


@pytest.mark.parametrize("text", ["ten", "0", "0.5", "-3", "nan", "inf", "1001"])
def test_what_is_no_factor_is_an_error_that_names_it(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, text)
    with pytest.raises(PatienceError, match=f"{PATIENCE_VARIABLE}={text}: .* from 1 to 1000"):
        patient(1.0)


def test_the_command_refuses_it_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(PATIENCE_VARIABLE, "ten")
    answer = CliRunner().invoke(app, ["status"])
    assert answer.exit_code == 2
    assert f"{PATIENCE_VARIABLE}=ten" in answer.output


def test_a_graph_that_takes_longer_than_the_limit_is_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Complete at the fourth look, after about 0.15 s: later than the limit, within ten of it."""
    monkeypatch.delenv("HEADRACE_PATIENCE", raising=False)
    looks = 0

    def answer(request: httpx.Request) -> httpx.Response:
        nonlocal looks
        if request.method == "PUT":
            return httpx.Response(202)
        looks += 1
        return httpx.Response(200, json={"status": "complete" if looks > 3 else "deploying"})

    async def deploy() -> None:
        async with NodeClient("http://node", httpx.MockTransport(answer)) as client:
            await client.deploy("g", {}, timeout_s=0.04)

    with pytest.raises(DeviceError, match="is not complete"):
        asyncio.run(deploy())
    looks = 0
    monkeypatch.setenv(PATIENCE_VARIABLE, "500")
    asyncio.run(deploy())
    assert looks == 4


def test_a_switch_that_listens_late_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its socket is there after 0.2 s, with a limit of 0.05 s: found, but it says no hello."""

    async def late() -> str:
        path = tmp_path / "mgmt"

        async def listen() -> asyncio.Server:
            await asyncio.sleep(0.2)
            return await asyncio.start_unix_server(lambda _, writer: writer.close(), str(path))

        listening = asyncio.create_task(listen())
        try:
            with pytest.raises(Exception, match="OpenFlow") as told:
                await OpenFlowSession.connect(path, timeout_s=0.05)
            return str(told.value)
        finally:
            (await listening).close()

    assert "no OpenFlow on" in asyncio.run(late())
    (tmp_path / "mgmt").unlink(missing_ok=True)
    monkeypatch.setenv(PATIENCE_VARIABLE, "100")
    assert "no OpenFlow hello" in asyncio.run(late())
