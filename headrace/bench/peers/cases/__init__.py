# SPDX-License-Identifier: Apache-2.0
"""What the peers are compared on: rules, frames and goals, a file for each kind of pipeline."""

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
