# SPDX-License-Identifier: Apache-2.0
"""`headrace bench placement` on a small case: every row is there and no plan violates its file."""

from headrace.bench.placement import measure


def test_a_small_case_has_every_row() -> None:
    rows, manifest = measure(lambda _: None, seeds=1, chains=60, servers=12, side_cases=False)
    values = {row.name: row.value for row in rows}
    assert values["60 chains on 12 servers: violated constraints"] == 0
    assert values["60 chains on 12 servers: chains without a place"] == 0
    assert "one more chain" in values and "a server's failure re-placed" in values
    assert manifest["seeds"] == [1]
