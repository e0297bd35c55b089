# SPDX-License-Identifier: Apache-2.0
"""Power by RAPL's counters, ipmitool's answer and Redfish, and what is made of it."""

from pathlib import Path

import httpx
import pytest

from headrace.bench.power import readers, suite
from headrace.bench.power.readers import NoPower, Rapl, Reader, Reading, between, redfish, watts_of


def test_rapl_adds_packages_and_survives_a_turn_of_the_counter(tmp_path: Path) -> None:
    for name, energy in (("intel-rapl:0", 900), ("intel-rapl:1", 5), ("intel-rapl:0:0", 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "energy_uj").write_text(str(energy))
        (tmp_path / name / "max_energy_range_uj").write_text("1000")
    rapl = Rapl(tmp_path)
    assert rapl.read().joules == 0
    (tmp_path / "intel-rapl:0" / "energy_uj").write_text("100")  # 200 later, over the end
    (tmp_path / "intel-rapl:1" / "energy_uj").write_text("305")
    assert rapl.read().joules == pytest.approx(500e-6)
    with pytest.raises(NoPower, match="no package"):
        Rapl(tmp_path / "nothing")


def test_watts_between_readings() -> None:
    assert between(Reading(1.0, joules=10), Reading(3.0, joules=250)) == 120
    assert between(Reading(1.0, watts=100), Reading(3.0, watts=120)) == 110
    text = (
        "    Instantaneous power reading:                   214 Watts\n    Minimum ...: 1 Watts\n"
    )
    assert watts_of(text) == 214
    with pytest.raises(NoPower, match="DCMI"):
        watts_of("DCMI request failed because: Invalid command (c1)")


def test_redfish_sums_power_controls_and_says_what_it_was_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answers = iter(
        [
            httpx.Response(
                200,
                json={"PowerControl": [{"PowerConsumedWatts": 80}, {"PowerConsumedWatts": 40.5}]},
            ),
            httpx.Response(401),
        ]
    )
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return next(answers)

    transport = httpx.MockTransport(answer)
    monkeypatch.delenv(readers.REDFISH, raising=False)
    with pytest.raises(NoPower, match="names no Power resource"):
        redfish(transport)
    monkeypatch.setenv(readers.REDFISH, "https://bmc/redfish/v1/Chassis/1/Power")
    monkeypatch.setenv(readers.REDFISH_AUTH, "user:word")
    assert redfish(transport).watts == 120.5
    assert asked[0].headers["authorization"].startswith("Basic ")
    with pytest.raises(NoPower, match="401"):
        redfish(transport)


class _Bed:
    """A switch of 10 Mpps that draws 20 W while it polls and 1 uJ for each packet."""

    name = "fake"

    def __init__(self) -> None:
        self.parked, self.pps = True, 0.0

    def park(self) -> None:
        self.parked, self.pps = True, 0.0

    def resume(self) -> None:
        self.parked, self.pps = False, 0.0

    async def rate(self, pps: float | None, seconds: float) -> float:
        self.pps = 10e6 if pps is None else pps
        return self.pps

    def read(self) -> Reading:
        return Reading(0.0, watts=50 + (0 if self.parked else 20) + self.pps * 1e-6)


async def test_states_are_told_apart_and_energy_is_power_over_rate() -> None:
    bed = _Bed()
    reader = Reader("meter", "all", bed.read)
    rows = await suite.measure(reader, bed, suite.Plan(2, 0.01), lambda _: None)
    values = {one.name: one for one in rows}
    assert values["server idle power"].value == 50
    assert values["switch polls without load power"].value == 70
    full = values["at 100 % of its rate power"].value
    assert full is not None and 70 < full <= 80
    energy = values["at 100 % of its rate energy"]
    assert energy.unit == "uJ/packet" and energy.value == pytest.approx(full / 10)
    assert bed.parked


async def test_without_a_meter_each_row_has_the_reasons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(suite, "readers", lambda: ([], ["RAPL: none", "IPMI: none"]))
    rows, manifest = await suite.run(suite.Plan(1, 0.01), lambda _: None)
    assert len(rows) == len(suite.states()) + len(suite.SHARES)
    assert {one.skipped for one in rows} == {"no power meter: RAPL: none; IPMI: none"}
    assert manifest["reasons"] == ["RAPL: none", "IPMI: none"]
