# SPDX-License-Identifier: Apache-2.0
"""`headrace model reproduce luizelli`: which statement of the paper holds for which n."""

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from headrace.cli import app
from headrace.model.cost import total_cost
from headrace.model.luizelli import functions, verdicts
from headrace.model.luizelli.claims import LENGTHS
from headrace.results import published


def test_every_statement_is_reproduced_or_says_for_which_n() -> None:
    found = verdicts.all_verdicts()
    assert [one.statement for one in found if one.outcome == "missed"] == []
    assert verdicts.in_full(found) == [4, 5, 6]
    partly = {
        one.statement: verdicts.ranges(one.holds) for one in found if one.outcome == "in part"
    }
    assert partly["ovs-kernel, 1500 B, 50 kpps: distribute is cheaper"] == "2 to 6"
    assert partly["ovs-dpdk, 1500 B, 50 kpps: gather is cheaper"] == "2 to 29"
    whole = [one for one in found if one.outcome == "reproduced"]
    assert sum(one.where == "Table I" for one in whole) == 8
    assert any("infeasible" in one.statement for one in whole)
    assert sum("Fig. 7" in one.where for one in whole) == 2


@given(
    st.sampled_from(verdicts.SWITCHES), st.sampled_from(verdicts.SIZES), st.sampled_from(LENGTHS)
)
def test_both_placements_cost_the_same_at_the_crossover(switch: str, size: int, n: int) -> None:
    both = functions.pair(switch, size)
    at = functions.crossover(both, n)
    assert at.low < at.value < at.high
    gather, distribute = (total_cost(side, at.value, n) for side in (both.gather, both.distribute))
    assert gather == pytest.approx(distribute, rel=1e-9)


@given(
    st.sampled_from(verdicts.SWITCHES), st.sampled_from(LENGTHS), st.sampled_from([1.0, 12.0, 24.0])
)
def test_at_the_infeasible_rate_all_cores_are_used(switch: str, n: int, cores: float) -> None:
    both = functions.pair(switch, 1500)
    for side in (both.gather, both.distribute):
        at = functions.infeasible_from(side, n, cores)
        assert total_cost(side, at, n) == pytest.approx(n * 100 * cores, rel=1e-9)


def _without(rows: list[published.PublishedFit], **changed: float) -> list[published.PublishedFit]:
    return [
        dataclasses.replace(row, **changed)  # type: ignore[arg-type]
        if (row.switch, row.placement, row.packet_bytes) == ("ovs-kernel", "gather", 1500)
        else row
        for row in rows
    ]


def test_a_wrong_coefficient_is_a_miss() -> None:
    """The swapped exponents (the printed reading) make gather dearer at every rate."""
    rows = published.cost_functions()
    swapped = [dataclasses.replace(row, alpha=row.beta, beta=row.alpha) for row in rows]
    assert any(one.outcome == "missed" for one in verdicts.all_verdicts(swapped))
    dearer = verdicts.all_verdicts(_without(rows, gamma=-2.0))
    assert any(one.outcome == "missed" for one in dearer)


def test_an_incomplete_table_is_refused() -> None:
    with pytest.raises(functions.IncompleteTable, match="ovs-dpdk, 1500 B"):
        verdicts.all_verdicts(published.cost_functions()[:-1])


def test_the_command_fails_in_strict_mode_and_prints_json() -> None:
    ran = CliRunner().invoke(app, ["model", "reproduce", "luizelli", "--json"])
    assert ran.exit_code == 0
    document = json.loads(ran.stdout)
    assert document["holds_in_full_for"] == [4, 5, 6]
    assert {row["outcome"] for row in document["rows"]} == {"reproduced", "in part"}
    assert CliRunner().invoke(app, ["model", "reproduce", "--strict"]).exit_code == 1
    assert CliRunner().invoke(app, ["model", "reproduce", "other"]).exit_code == 2


def test_ranges_read_well() -> None:
    assert verdicts.ranges([6, 4, 5, 9]) == "4 to 6, 9"
    assert verdicts.ranges([]) == "none"
