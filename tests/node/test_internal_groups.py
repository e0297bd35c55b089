# SPDX-License-Identifier: Apache-2.0
"""Internal groups: one LSI for all graphs of a group, whichever comes first and leaves last."""

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.node.access.permissions import demand_groups
from headrace.node.access.users import User
from headrace.node.errors import AccessError, GraphRefused
from headrace.node.planning.holdings import Holdings
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.resources import EMPTY_PLAN, Plan
from tests.node import graphs
from tests.node.api import Api, api_of
from tests.node.surroundings import surroundings


def member(port: str, *groups: str) -> graphs.Json:
    """A graph that joins a physical port to the first of its groups."""
    points = [graphs.interface("in", port)]
    points += [graphs.internal(f"group{n}", group) for n, group in enumerate(groups)]
    return graphs.document(points, graphs.joined(("endpoint:in", "endpoint:group0")))


def plan_of(
    document: graphs.Json, number: int, others: dict[str, Plan], previous: Plan = EMPTY_PLAN
) -> Plan:
    graph, _ = parse(document)
    return make_plan(graph, f"g{number}", number, surroundings(others), previous)


def test_graphs_of_a_group_meet_and_others_do_not() -> None:
    first = plan_of(member("p0", "a"), 1, {})
    second = plan_of(member("p1", "a", "b"), 2, {"g1": first})
    assert first.groups() == {"a": "hr-i1"}
    assert second.groups() == {"a": "hr-i1", "b": "hr-i2"}


def test_an_update_keeps_the_lsi_of_a_group() -> None:
    first = plan_of(member("p0", "a"), 1, {})
    second = plan_of(member("p1", "b"), 2, {"g1": first})
    again = plan_of(member("p1", "b"), 2, {}, second)  # the first has gone meanwhile
    assert again.resources == second.resources


def test_two_end_points_of_a_graph_in_one_group_are_two_ports() -> None:
    plan = plan_of(member("p0", "a", "a"), 1, {})
    assert len(set(plan.port_names.values())) == 2
    assert [r.key for r in plan.resources].count("lsi hr-i1") == 1


def test_the_linux_bridge_has_none() -> None:
    graph, _ = parse(member("p0", "a"))
    node = surroundings()
    bridge = node.capabilities.model_copy(update={"end_points": ("interface",)})
    with pytest.raises(
        GraphRefused, match=r"end-points\[1\]: switch fake has no internal end-points"
    ):
        make_plan(graph, "g", 1, type(node)(**{**vars(node), "capabilities": bridge}))


ORDERS = st.lists(st.tuples(st.sampled_from("xy"), st.sampled_from(["put", "delete"])), max_size=8)


@pytest.mark.parametrize("at_once", [False, True])
def test_come_and_go_in_any_order(tmp_path_factory: pytest.TempPathFactory, at_once: bool) -> None:
    """The LSI of a group is there exactly as long as a graph is in it."""

    @settings(max_examples=25, deadline=None)
    @given(ORDERS)
    def run(order: list[tuple[str, str]]) -> None:
        asyncio.run(_come_and_go(tmp_path_factory.mktemp("node"), order, at_once))

    run()


async def _come_and_go(rundir: Path, order: list[tuple[str, str]], at_once: bool) -> None:
    ports = {"x": "p0", "y": "p1"}
    async for api in api_of(rundir):
        present: set[str] = set()
        for graph, action in order:
            if action == "put" and graph not in present:
                work = api("PUT", f"/NF-FG/{graph}", member(ports[graph], "a"))
                present.add(graph)
            elif action == "delete" and graph in present:
                work = api("DELETE", f"/NF-FG/{graph}")
                present.remove(graph)
            else:
                continue
            if at_once:
                # The other graph's change goes on meanwhile.
                other = ({"x", "y"} - {graph}).pop()
                if other in present:
                    await asyncio.gather(work, api("DELETE", f"/NF-FG/{other}"))
                    present.remove(other)
                    continue
            assert (await work).status_code in (201, 202, 204)
        _check(api, present)


def _check(api: Api, present: set[str]) -> None:
    held = api.world.read()
    groups = [lsi for lsi in held["lsis"] if "-i" in lsi]
    assert len(groups) == bool(present)
    ends = [port for port, lsi in held["ports"].items() if lsi in groups]
    assert len(ends) == len(present)
    rules = [rule for rule in held["rules"].values() if rule["lsi"] in groups]
    assert len(rules) == len(present)


async def test_a_group_of_another_user_is_not_joined(api: Api) -> None:
    users = api.node.users
    ann, bob = User("ann", "sales"), User("bob", "staff")
    first = plan_of(member("p0", "a"), 1, {})
    second = plan_of(member("p1", "a"), 2, {"g1": first})
    users.set_owner("g1", ann)
    others = Holdings.of({"g1": first}).without("g2")
    with pytest.raises(AccessError, match="internal-group 'a' is that of another user's graphs"):
        demand_groups(users, bob, second, others)
    demand_groups(users, ann, second, others)
    demand_groups(users, User("eve", "sales"), second, others)
