# SPDX-License-Identifier: Apache-2.0
"""The cases of the comparison: rules, frames and goals, one file per kind of pipeline."""

from headrace.bench.peers.cases import firewall, gateways, pipelines, routing, switching
from headrace.bench.peers.cases.case import Case


def all_cases() -> list[Case]:
    """Every case, in the order of the report."""
    return [
        *switching.mac_tables(),
        *routing.all_cases(),
        *gateways.all_cases(),
        *switching.all_cases(),
        *pipelines.all_cases(),
        *firewall.all_cases(),
    ]
