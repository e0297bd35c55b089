# SPDX-License-Identifier: Apache-2.0
"""`headrace bench side-by-side`: how many VNFs fit before the rate of each falls, and a prediction.

The question of ICPE 2018 (Pitaev et al.) that `headrace model capacity` answers: n VNFs side by
side are each to carry the same rate, for n from 1 up. The rate of each falls where it is less than
`KEPT` of what one alone carries of that demand. The prediction is the node's, stored with each
graph: as many VNFs as its saturation has room for; it knows which VNFs share a core.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from headrace.bench.core_plan import plan_cores
from headrace.bench.device import TrialRequest
from headrace.bench.errors import DeviceError
from headrace.bench.manifest import machine
from headrace.bench.plan import Block, Job
from headrace.bench.rows import Row, row, skipped
from headrace.bench.scenario import Measure
from headrace.bench.subject import Subject
from headrace.bench.testbed import Testbed
from headrace.results import Case

Say = Callable[[str], None]

KEPT = 0.9
"""Share of the rate of one VNF alone, below which the rate of each has fallen."""
NAME = "side-by-side"
MEASURED = "VNFs before the rate of each falls"
PREDICTED = "VNFs before the rate of each falls: predicted"


def case_of(subject: Subject, vnfs: int, size: int) -> Case:
    """So many VNFs side by side, each with traffic of its own."""
    return Case(
        scenario=NAME,
        shape="parallel",
        vnfs=vnfs,
        placement="distribute",
        switch=subject.switch,
        ports=subject.outer_ports,
        vnf_ports=subject.inner_ports,
        function=subject.function,
        engine=subject.engine,
        size=str(size),
        flows=100,
    )


def fitting(each: Mapping[int, float]) -> tuple[int, bool]:
    """The number of VNFs up to which each carries `KEPT` of what one alone does.

    Args:
        each: by number of VNFs from 1 on, the rate of one of them.

    Returns:
        That number, and whether there was one more whose rate had fallen.
    """
    last = 0
    for number in sorted(each):
        if each[number] < KEPT * each[1]:
            return last, True
        last = number
    return last, False


def rows_of(
    demand: float,
    rates: Mapping[int, Sequence[float]],
    saturations: Mapping[int, Mapping[str, float] | None],
    reasons: Mapping[int, str],
) -> list[Row]:
    """The figures.

    Args:
        demand: packets per second of each VNF.
        rates: by number of VNFs, packets per second of all in each trial.
        saturations: by number of VNFs, the predicted saturation of all (value, low, high).
        reasons: by number of VNFs, why nothing was measured.
    """
    unit, found = "Mpps", []
    each = {n: statistics.median(some) / n for n, some in rates.items() if some}
    numbers = [n for n in sorted(saturations) if saturations[n] is not None]

    def room(bound: str) -> int:
        """The most VNFs whose demand is within the predicted saturation's bound."""
        enough = [n for n in numbers if n * demand <= (saturations[n] or {})[bound]]
        return max(enough, default=0)

    if 1 in each:
        last, fell = fitting(each)
        note = "" if fell else "the rate of each had not fallen with the most that were measured"
        found.append(row(MEASURED, [float(last)], "VNFs", note=note or None))
    else:
        found.append(skipped(MEASURED, "VNFs", reasons.get(1, "one VNF alone was not measured")))
    if numbers:
        note = f"{room('low')} to {room('high')} by the 95 % interval"
        if room("value") == max(numbers):
            note += "; more were not asked for"
        found.append(row(PREDICTED, [float(room("value"))], "VNFs", note=note))
    else:
        found.append(skipped(PREDICTED, "VNFs", "the node predicted none of the graphs"))
    for number in sorted({*saturations, *reasons}):
        name = f"{number} VNFs: rate of each" if number > 1 else "1 VNF: its rate"
        if not rates.get(number):
            found.append(skipped(name, unit, reasons.get(number, "not measured")))
            continue
        top = saturations.get(number)
        at_most = None if top is None else f"predicted at most {top['value'] / number / 1e6:.3f}"
        found.append(row(name, [one / number / 1e6 for one in rates[number]], unit, note=at_most))
    return found


async def measure(
    model: Path,
    subject: Subject,
    say: Say,
    *,
    most: int,
    demand: float,
    size: int,
    repeats: int,
    seconds: float,
) -> tuple[list[Row], dict[str, Any]]:
    """All rows and the manifest.

    Raises:
        DeviceError: the node did not start.
    """
    settings = {"model": str(model)}
    bed = Testbed([subject], plan_cores(), quick=True, settings=settings, most_vnfs=most)
    rates: dict[int, list[float]] = {}
    saturations: dict[int, Mapping[str, float] | None] = {}
    reasons: dict[int, str] = {}
    await bed.up()
    try:
        for number in range(1, most + 1):
            case = case_of(subject, number, size)
            block = Block(case.shape, case.vnfs, case.prefixes, [Job(case, Measure())])
            try:
                await bed.deploy(block, case.subject, {"bytes": float(size)})
                told = (await bed.prediction(case))["predicted"]
                saturations[number] = None if told is None else told["saturation_pps"]
                device = await bed.device(case)
                for repeat in range(repeats):
                    request = TrialRequest(repeat, "loss", seconds, number * demand)
                    rates.setdefault(number, []).append((await device.trial(request)).rx_pps)
            except DeviceError as error:
                reasons[number] = str(error)
            finally:
                await bed.withdraw(block, case.subject)
            say(f"{number}: {reasons.get(number) or rates[number]}")
    finally:
        await bed.down()
    manifest = {
        "machine": machine(),
        "model": str(model),
        "subject": subject.node,
        "demand_pps": demand,
        "size": size,
        "definitions": {
            MEASURED: f"the most up to which each carries {KEPT:g} of what one does alone",
            PREDICTED: "the largest number whose demand is within the saturation that the node "
            "stored with the graph",
        },
    }
    return rows_of(demand, rates, saturations, reasons), manifest
