# SPDX-License-Identifier: Apache-2.0
import asyncio
import stat
from pathlib import Path
from typing import Any

import pytest

from headrace.traffic import StreamSpec, TrafficClient, TrafficError, TrafficProcess
from tests.traffic.fake_generator import FakeGenerator, Refusal

COUNTS: dict[str, Any] = {
    "intended": 100,
    "sent": 98,
    "unsent": 2,
    "received": 95,
    "lost": 3,
    "duplicated": 1,
    "reordered": 4,
    "misdelivered": 0,
    "tx_pps": 98.0,
    "rx_pps": 95.0,
    "loss_ratio": 0.05,
    "latency_ns": {"count": 95, "min": 1.0, "mean": 2.0, "p50": 2.0, "p99_9": 9.0, "max": 9.5},
    "pdv_ns": 8.0,
}
TRIAL: dict[str, Any] = {
    **COUNTS,
    "duration_s": 1.0,
    "generator": {"busy_share": 0.25, "cores": 1},
    "streams": [{**COUNTS, "name": "ab"}],
}


async def test_trial_parameters_and_result(tmp_path: Path) -> None:
    async def trial(_: dict[str, Any]) -> Any:
        return TRIAL

    async with (
        FakeGenerator(tmp_path / "ctl", {"trial": trial}) as fake,
        TrafficClient(tmp_path / "ctl") as client,
    ):
        result = await client.trial(1.0, 100.5, warmup_s=0.5, drain_s=0.2, yield_core=True)
        assert fake.calls == [
            (
                "trial",
                {
                    "duration_s": 1.0,
                    "load_pps": 100.5,
                    "warmup_s": 0.5,
                    "drain_s": 0.2,
                    "yield": True,
                },
            )
        ]
    assert result.loss_ratio == 0.05
    assert result.latency_ns.p99_9 == 9.0
    assert result.latency_ns.p90 is None
    assert result.streams[0].name == "ab"
    assert result.generator.busy_share == 0.25


async def test_as_fast_as_possible_is_null(tmp_path: Path) -> None:
    async def trial(params: dict[str, Any]) -> Any:
        assert params["load_pps"] is None
        return TRIAL

    async with (
        FakeGenerator(tmp_path / "ctl", {"trial": trial}),
        TrafficClient(tmp_path / "ctl") as client,
    ):
        await client.trial(1.0, None)


async def test_answers_may_come_out_of_order(tmp_path: Path) -> None:
    gate = asyncio.Event()

    async def trial(_: dict[str, Any]) -> Any:
        await gate.wait()
        return TRIAL

    async def ping(_: dict[str, Any]) -> Any:
        return {"program": "headrace-traffic"}

    async with (
        FakeGenerator(tmp_path / "ctl", {"trial": trial, "ping": ping}),
        TrafficClient(tmp_path / "ctl") as client,
    ):
        running = asyncio.create_task(client.trial(1.0, 100))
        assert (await client.ping())["program"] == "headrace-traffic"
        assert not running.done()
        gate.set()
        assert (await running).sent == 98


async def test_errors_keep_their_code(tmp_path: Path) -> None:
    async def add_port(_: dict[str, Any]) -> Any:
        raise Refusal("bad_devargs", "/devargs: no driver; write net_memif0,...")

    async with (
        FakeGenerator(tmp_path / "ctl", {"add_port": add_port}),
        TrafficClient(tmp_path / "ctl") as client,
    ):
        with pytest.raises(TrafficError, match="/devargs: no driver") as caught:
            await client.add_port("a", "nonsense")
        assert caught.value.code == "bad_devargs"


async def test_a_generator_that_hangs_up_fails_the_call(tmp_path: Path) -> None:
    async def trial(_: dict[str, Any]) -> Any:
        fake.hang_up()

    async with (
        FakeGenerator(tmp_path / "ctl", {"trial": trial}) as fake,
        TrafficClient(tmp_path / "ctl") as client,
    ):
        with pytest.raises(TrafficError) as caught:
            await client.trial(1.0, 1)
        assert caught.value.code == "closed"
        with pytest.raises(TrafficError) as caught:
            await client.ping()
        assert caught.value.code == "closed"


async def test_wait_links_names_the_port_without_link(tmp_path: Path) -> None:
    polls = 0

    async def ports(_: dict[str, Any]) -> Any:
        nonlocal polls
        polls += 1
        return [
            {"name": "a", "mac": "02:00:00:00:00:01", "link": polls > 2},
            {"name": "b", "mac": "02:00:00:00:00:02", "link": False},
        ]

    async with (
        FakeGenerator(tmp_path / "ctl", {"ports": ports}),
        TrafficClient(tmp_path / "ctl") as client,
    ):
        assert (await client.wait_links(["a"], timeout_s=5))[0].link
        with pytest.raises(TrafficError, match="no link on b") as caught:
            await client.wait_links(timeout_s=0.1)
        assert caught.value.code == "link_down"
        with pytest.raises(TrafficError, match="no port c"):
            await client.wait_links(["c"])


async def test_a_reply_of_the_wrong_shape_is_an_error(tmp_path: Path) -> None:
    async def trial(_: dict[str, Any]) -> Any:
        return {"sent": "many"}

    async with (
        FakeGenerator(tmp_path / "ctl", {"trial": trial}),
        TrafficClient(tmp_path / "ctl") as client,
    ):
        with pytest.raises(TrafficError) as caught:
            await client.trial(1.0, 1)
        assert caught.value.code == "bad_reply"


async def test_configure_leaves_out_what_is_not_set(tmp_path: Path) -> None:
    async def configure(_: dict[str, Any]) -> Any:
        return {}

    async with (
        FakeGenerator(tmp_path / "ctl", {"configure": configure}) as fake,
        TrafficClient(tmp_path / "ctl") as client,
    ):
        await client.configure([StreamSpec(name="ab", tx_port="a", rx_port="b", size="imix-csit")])
    assert fake.calls[0][1] == {
        "streams": [
            {
                "name": "ab",
                "tx_port": "a",
                "rx_port": "b",
                "size": "imix-csit",
                "flows": 1,
                "share": 1.0,
            }
        ]
    }


async def test_nobody_listens(tmp_path: Path) -> None:
    with pytest.raises(TrafficError) as caught:
        await TrafficClient(tmp_path / "none").connect()
    assert caught.value.code == "unreachable"


async def test_a_start_that_fails_quotes_the_output(tmp_path: Path) -> None:
    program = tmp_path / "broken"
    program.write_text("#!/bin/sh\necho no hugepages here >&2\nexit 3\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    with pytest.raises(TrafficError, match="exited with 3: no hugepages here") as caught:
        await TrafficProcess(program=program).connect()
    assert caught.value.code == "start_failed"


async def test_a_program_that_is_not_built_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.traffic.client.PROGRAM", "headrace-no-such-program")
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(TrafficError, match="headrace-no-such-program is not built") as caught:
        await TrafficProcess().connect()
    assert caught.value.code == "no_program"
