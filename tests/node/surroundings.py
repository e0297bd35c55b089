# SPDX-License-Identifier: Apache-2.0
"""What planning sees of a node that does not exist: memif ports p0 and p1, every template."""

from pathlib import Path
from typing import Any

from headrace.node import templates
from headrace.node.config import from_dict
from headrace.node.planning.holdings import Holdings
from headrace.node.planning.ports import port_spec
from headrace.node.planning.resources import Plan
from headrace.node.planning.surroundings import Surroundings
from headrace.switches.base import Capabilities, PortKind
from headrace.switches.headrace_switch import HeadraceDriver


def surroundings(others: dict[str, Plan] | None = None, **settings_: Any) -> Surroundings:
    """The node's surroundings; `settings_` are those of node.yaml."""
    rundir = Path("/run/test")
    kind = PortKind.MEMIF
    return Surroundings(
        config=from_dict({"oversubscribe": True, "memory_mb": 4096, **settings_}),
        capabilities=Capabilities(
            port_kinds=(kind,), vnf_kinds=(kind,), end_points=HeadraceDriver.capabilities.end_points
        ),
        switch="fake",
        rundir=rundir,
        prefix="hr",
        templates=templates.load([]),
        engine_kinds={"process": (kind,)},
        ports={
            name: port_spec(name, kind, {}, rundir / "ports", rundir, {}) for name in ("p0", "p1")
        },
        others=Holdings.of(others or {}).without(""),
    )
