# SPDX-License-Identifier: Apache-2.0
"""`headrace bench side-by-side`: from which number on the rate of each VNF falls."""

from headrace.bench.side_by_side import MEASURED, PREDICTED, case_of, fitting, rows_of
from headrace.bench.subject import Subject

SUBJECT = Subject.model_validate(
    {"switch": "headrace", "ports": "in-process", "vnf_ports": "vhost-user"}
)


def saturation(value: float) -> dict[str, float]:
    return {"value": value, "low": 0.7 * value, "high": 1.3 * value}


def test_a_case_has_its_vnfs_side_by_side() -> None:
    case = case_of(SUBJECT, 3, 64)
    assert case.shape == "parallel" and case.vnfs == 3 and case.graph == "pvpv3"


def test_the_rate_of_each_falls_where_it_is_less_than_that_of_one_alone() -> None:
    assert fitting({1: 1.0, 2: 0.99, 3: 0.91, 4: 0.8, 5: 1.0}) == (3, True)
    assert fitting({1: 1.0, 2: 0.95}) == (2, False)


def test_measured_and_predicted_are_told_beside_each_other() -> None:
    rates = {1: [1e6, 0.99e6], 2: [2e6, 2e6], 3: [2.4e6, 2.4e6]}
    predicted = {1: saturation(5e6), 2: saturation(3e6), 3: saturation(2.5e6), 4: None}
    rows = {one.name: one for one in rows_of(1e6, rates, predicted, {4: "no memory"})}
    assert rows[MEASURED].value == 2 and rows[PREDICTED].value == 2
    assert "2 to 3 by the 95 % interval" in (rows[PREDICTED].note or "")
    assert rows["3 VNFs: rate of each"].value == 0.8
    assert "0.833" in (rows["3 VNFs: rate of each"].note or "")
    assert rows["4 VNFs: rate of each"].skipped == "no memory"


def test_without_a_measurement_or_a_prediction_there_is_a_reason() -> None:
    rows = {one.name: one for one in rows_of(1e6, {}, {1: None}, {1: "it did not start"})}
    assert rows[MEASURED].skipped == "it did not start"
    assert rows[PREDICTED].value is None and "predicted none" in (rows[PREDICTED].skipped or "")
    more = rows_of(1e6, {1: [1e6], 2: [2e6]}, {1: saturation(9e6), 2: saturation(9e6)}, {})
    assert "had not fallen" in (more[0].note or "") and "not asked for" in (more[1].note or "")
