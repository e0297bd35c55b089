# SPDX-License-Identifier: Apache-2.0
"""What `headrace bench scale` makes of its readings."""

from headrace.bench.scale import Cost, Step, memory_kib, rows_of


def test_memory_is_resident_pages_of_both_kinds() -> None:
    status = "VmPeak:\t  900 kB\nVmRSS:\t  100 kB\nRssAnon:\t 7 kB\nHugetlbPages:\t    2048 kB\n"
    assert memory_kib(status) == 2148


def test_each_step_is_charged_with_what_it_added() -> None:
    steps = [
        Step("ports", 64, 64, 0.64, Cost([300.0], [20.0], 1640)),
        Step("ports", 256, 192, 0.96, Cost([320.0], [19.0], 1640 + 384)),
    ]
    rows = {each.name: each.value for each in rows_of(Cost([100.0], [21.0], 1000), steps)}
    assert rows["empty switch round"] == 100
    assert rows["64 ports time to add"] == 10
    assert rows["64 ports memory"] == 10
    assert rows["256 ports time to add"] == 5
    assert rows["256 ports memory"] == 2
    assert rows["256 ports rate"] == 19
