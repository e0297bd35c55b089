# SPDX-License-Identifier: Apache-2.0
"""The papers whose experiments are scenarios, by the names under which commands know them."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A paper, or a suite of tests that names its cases.

    Attributes:
        key: the name that commands take, and of its folder in `scenarios/`.
        short: its name in `published/` and in the scenarios' `papers`.
        title: authors, title, year.
    """

    key: str
    short: str
    title: str


PAPERS = (
    Paper(
        "icpe18",
        "icpe18-multi-vnf",
        "Pitaev et al., “Characterizing the Performance of Concurrent Virtualized "
        "Network Functions with OVS-DPDK, FD.IO VPP and SR-IOV”, ICPE 2018",
    ),
    Paper(
        "kawashima",
        "kawashima-nodes",
        "Kawashima et al., “Understanding Forwarding Performance Characteristics of NFV-nodes” "
        "(slides, 2017)",
    ),
    Paper(
        "luizelli",
        "luizelli-cost",
        "Luizelli et al., “The Actual Cost of Software Switching for NFV Chaining”",
    ),
    Paper("hong", "datapath-composition", "Hong et al., “Datapath Composition” (slides)"),
    Paper("unify", "unify-d5.6", "UNIFY Deliverable 5.6, “Universal Node Benchmarking” (2016)"),
    Paper("vsperf", "vsperf", "OPNFV VSPERF's deployments: p2p, pvp, pvvp, pvpv, v2v"),
)


def paper(name: str) -> Paper | None:
    """The paper of a key or short name; None if there is none."""
    return next((one for one in PAPERS if name in (one.key, one.short)), None)
