# SPDX-License-Identifier: Apache-2.0
"""A paper's figure or table as a scenario names it: its axes, its numbers, and which of ours.

A scenario file lists its figures; the campaign's manifest holds them, so the report draws a stored
campaign without the file.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

Axis = Literal["vnfs", "size", "flows", "load", "workers", "taken", "nodes", "system"]
"""What a figure's horizontal axis is; `system` where there is one value for each system."""
Unit = Literal[
    "Mpps", "kpps", "Gbit/s", "Mbit/s", "us", "ms", "% of a core", "cycles", "cycles/packet", "W",
    "uJ/packet", "% lost", "% below bare metal", "% of line rate", "% of its throughput",
    "packets lost", "ms added per node",
]  # fmt: skip


class Figure(BaseModel):
    """One figure or table.

    Attributes:
        figure: as the paper calls it: `Fig. 5`.
        title: what it shows.
        x, y: its axes.
        metric: ours, of a scenario with cases (`mrr`, `pdr`, `cpu_percent`, ...).
        point: and at which point of the load axis; any if empty. With x `load` all points count.
        select: members of our cases, each with the values that belong into the figure.
        published: columns of published/*.csv, each with the values that belong into the figure.
        alike: their system beside ours of the same kind: what may be compared.
        rows: of a scenario that is a command: a regular expression over the names of its rows with
            the groups `series` and, unless x is `system`, `x`.
        relative_to: ours in percent below this one of our series, at the same x.
        subtract: the graph (`p2p`) whose value on the same ports is the baseline to subtract.
        benchmark: a line for the value of one VNF times their number, of this one of our series.
        logarithmic: the vertical axis.
        text: what the paper says of the figure where its numbers are not in the text.
        differs: what differs between theirs and ours.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    figure: str
    title: str
    x: Axis = "system"
    y: Unit = "Mpps"
    metric: str = "mrr"
    point: str = ""
    select: dict[str, list[str | int]] = {}
    published: dict[str, list[str | int]] = {}
    alike: dict[str, str] = {}
    rows: str = ""
    relative_to: str = ""
    subtract: str = ""
    benchmark: str = ""
    logarithmic: bool = False
    text: str = ""
    differs: str = ""
