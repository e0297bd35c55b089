# SPDX-License-Identifier: Apache-2.0
"""What a poller does when idle, by whom it shares its core with and what was set."""

from dataclasses import replace
from typing import Any

import pytest

from headrace.engines.base import VnfSpec
from headrace.node.config import usable_cores
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.resources import EMPTY_PLAN, Plan
from headrace.node.templates import Template, TemplateStore
from headrace.switches.base import PortKind
from tests.node import graphs
from tests.node.surroundings import surroundings

FIRST, LAST = usable_cores()[0], usable_cores()[-1]
SHARED: dict[str, Any] = {"cores": {"control": [FIRST], "switch": [LAST], "vnf": [FIRST]}}


def plan(previous: Plan = EMPTY_PLAN, template: Template | None = None, **settings: Any) -> Plan:
    node = surroundings(**{"oversubscribe": False, **SHARED, **settings})
    if template is not None:
        node = replace(node, templates=TemplateStore([template]))
    graph, _ = parse(graphs.chain("pass", 1))
    return make_plan(graph, "g", 1, node, previous)


def placed(**settings: Any) -> VnfSpec:
    (vnf,) = plan(**settings).vnfs()
    return vnf


def test_pollers_that_share_a_core_sleep_when_idle() -> None:
    assert placed().idle == "sleep"  # with the control programs
    if FIRST == LAST:
        pytest.skip("needs two cores")
    apart = {"control": [LAST], "switch": [LAST], "vnf": [FIRST]}
    assert placed(cores=apart).idle == "poll"
    assert placed(cores=apart, oversubscribe=True).idle == "sleep"  # with whoever comes next


@pytest.mark.parametrize("idle", ["poll", "yield", "sleep"])
def test_node_yaml_says_otherwise(idle: str) -> None:
    vnf = placed(idle=idle, sleep_us=400, burst=64)
    assert (vnf.idle, vnf.burst) == (idle, 64)
    assert vnf.sleep_us == (400 if idle == "sleep" else 50)


def test_a_template_says_otherwise() -> None:
    template = Template.model_validate(
        {
            "id": "pass",
            "name": "pass",
            "functional-capability": "pass",
            "engine": "process",
            "function": "pass",
            "cores": 1,
            "idle": "yield",
            "burst": 4,
        }
    )
    vnf = placed(template=template, idle="sleep", burst=64)
    assert (vnf.idle, vnf.burst) == ("yield", 4)
    assert vnf.ports[0].switch_port.kind is PortKind.MEMIF


def test_an_update_keeps_what_runs_unless_node_yaml_says_otherwise() -> None:
    before = plan(idle="yield")
    (kept,) = plan(before).vnfs()
    assert kept.idle == "yield"
    (changed,) = plan(before, idle="sleep").vnfs()
    assert changed.idle == "sleep"
