# SPDX-License-Identifier: Apache-2.0
"""Readers of electric power: RAPL's counters, IPMI's DCMI reading, Redfish's.

* RAPL (powercap in sysfs) counts microjoules of processor packages and memory: not fans, disks or
  NICs. It is exact over any window.
* IPMI (`ipmitool dcmi power reading`) and Redfish (`PowerControl` of a chassis, DSP0268) give the
  watts of the whole server, as D5.6 measured them; most controllers renew them once a second.

Redfish is asked where $HEADRACE_REDFISH names a chassis' Power resource
(`https://bmc.example/redfish/v1/Chassis/1/Power`), with $HEADRACE_REDFISH_AUTH as `user:password`.
"""

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx

POWERCAP = Path("/sys/class/powercap")
IPMI_DEVICES = (Path("/dev/ipmi0"), Path("/dev/ipmi/0"), Path("/dev/ipmidev/0"))
REDFISH, REDFISH_AUTH = "HEADRACE_REDFISH", "HEADRACE_REDFISH_AUTH"
ASK_S = 10.0
_WATTS = re.compile(r"Instantaneous power reading:\s*(\d+(?:\.\d+)?)\s*Watts")


class NoPower(Exception):
    """This reader can't be used here; the text says why."""


@dataclass(frozen=True)
class Reading:
    """Energy since some beginning, or power now: two readings give the watts between them."""

    at: float
    joules: float | None = None
    watts: float | None = None


@dataclass(frozen=True)
class Reader:
    """A way to read power.

    Attributes:
        name: rapl, ipmi or redfish.
        covers: what the figure includes.
        read: takes a reading; NoPower if it can't.
    """

    name: str
    covers: str
    read: Callable[[], Reading]


def between(first: Reading, last: Reading) -> float:
    """Mean watts between two readings: of counters exactly, else the mean of both."""
    if first.joules is not None and last.joules is not None:
        return (last.joules - first.joules) / (last.at - first.at)
    assert first.watts is not None and last.watts is not None
    return (first.watts + last.watts) / 2


class Rapl:
    """RAPL's packages, with counters that turn over put together."""

    def __init__(self, powercap: Path = POWERCAP) -> None:
        """NoPower if the kernel shows no package."""
        self._zones = sorted(powercap.glob("*-rapl:[0-9]*"))
        self._zones = [zone for zone in self._zones if zone.name.count(":") == 1]
        if not self._zones:
            raise NoPower(f"RAPL: {powercap} has no package")
        self._last: dict[Path, int] = {}
        self._joules = 0.0

    def read(self) -> Reading:
        """The joules of all packages since the first reading."""
        for zone in self._zones:
            try:
                now = int((zone / "energy_uj").read_text())
                turns_at = int((zone / "max_energy_range_uj").read_text())
            except (OSError, ValueError) as error:
                raise NoPower(f"RAPL: {zone}: {error}") from error
            grown = now - self._last.get(zone, now)
            self._joules += (grown + turns_at if grown < 0 else grown) / 1e6
            self._last[zone] = now
        return Reading(time.monotonic(), joules=self._joules)


def ipmi() -> Reading:
    """Watts by the server's management controller.

    Raises:
        NoPower: there is no controller or no ipmitool, or it has no DCMI.
    """
    program = shutil.which("ipmitool")
    if not any(device.exists() for device in IPMI_DEVICES):
        raise NoPower("IPMI: there is no /dev/ipmi0")
    if program is None:
        raise NoPower("IPMI: ipmitool is not installed")
    try:
        told = subprocess.run(  # noqa: S603
            [program, "dcmi", "power", "reading"],
            capture_output=True, text=True, timeout=ASK_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NoPower(f"IPMI: {error}") from error
    return Reading(time.monotonic(), watts=watts_of(told.stdout or told.stderr))


def watts_of(text: str) -> float:
    """The watts of ipmitool's answer; NoPower if there are none."""
    found = _WATTS.search(text)
    if found is None:
        raise NoPower(f"IPMI: {text.strip()[:200] or 'no answer'}")
    return float(found[1])


def redfish(transport: httpx.BaseTransport | None = None) -> Reading:
    """Watts by a chassis' Power resource.

    Raises:
        NoPower: none is named, or it does not answer as DSP0268 says.
    """
    url = os.environ.get(REDFISH)
    if not url:
        raise NoPower(f"Redfish: ${REDFISH} names no Power resource")
    user, _, password = os.environ.get(REDFISH_AUTH, "").partition(":")
    try:
        with httpx.Client(timeout=ASK_S, transport=transport) as http:
            answer = http.get(url, auth=(user, password) if user else None)
            answer.raise_for_status()
            watts = sum(float(one["PowerConsumedWatts"]) for one in answer.json()["PowerControl"])
    except (httpx.HTTPError, KeyError, TypeError, ValueError) as error:
        raise NoPower(f"Redfish: {url}: {error!r}") from error
    return Reading(time.monotonic(), watts=watts)


def readers() -> tuple[list[Reader], list[str]]:
    """The readers that work here, and of each other one the reason why it does not."""
    found: list[Reader] = []
    reasons: list[str] = []
    kinds: tuple[tuple[str, str, Callable[[], Callable[[], Reading]]], ...] = (
        ("rapl", "processor packages and their memory", lambda: Rapl().read),
        ("ipmi", "the whole server", lambda: ipmi),
        ("redfish", "the whole server", lambda: redfish),
    )
    for name, covers, make in kinds:
        try:
            read = make()
            read()
        except NoPower as error:
            reasons.append(str(error))
            continue
        found.append(Reader(name, covers, read))
    return found, reasons


def why_no_power() -> str | None:
    """Why power can't be read here; None if some reader works."""
    found, reasons = readers()
    return None if found else f"no power meter: {'; '.join(reasons)}"
