# SPDX-License-Identifier: Apache-2.0
"""What the controller decides: deploying, updating, undoing, lost nodes, removing."""

import copy
from typing import Any

import pytest

from headrace.cluster.controller.statuses import recorded
from headrace.cluster.core.core import Core
from headrace.cluster.core.reports import graph_conditions, graph_status, node_conditions
from headrace.cluster.core.settings import Settings
from headrace.cluster.resources import graph_of, node_of
from headrace.cluster.simulation.nodes import ModelNode
from tests.cluster.bed import HOLD, Bed
from tests.cluster.objects import headrace_node, service_graph


def _ready(bed: Bed, uid: str) -> tuple[bool | None, str]:
    found = {one.type: one for one in graph_conditions(bed.core, bed.core.book.deployments[uid])}
    return found["Ready"].status, found["Ready"].reason


def _next(body: dict[str, Any], **spec: Any) -> dict[str, Any]:
    made = copy.deepcopy(body)
    made["metadata"]["generation"] += 1
    made["spec"] |= spec
    return made


def test_a_chain_goes_over_nodes_and_leaves_nothing() -> None:
    bed = Bed()
    body = service_graph()
    uid = bed.want(body)
    assert bed.whole(uid, body) and set(bed.parts(uid)) >= {"n1", "n3"}
    assert _ready(bed, uid) == (True, "Deployed")
    status = graph_status(bed.core, uid)
    assert [one["name"] for one in status["vnfs"]] == ["v0", "v1", "v2", "v3"]
    assert {one["name"]: one["node"] for one in status["endPoints"]} == {"in": "n1", "out": "n3"}
    assert len({link["vni"] for link in status["links"]}) == len(status["links"]) > 0
    bed.drop(uid)
    assert bed.core.graph_gone(uid) and bed.empty()
    assert all(bed.core.fleet.used_of(name)["cores"] == 0 for name in bed.nodes)


def test_gather_and_distribute() -> None:
    bed = Bed(4)
    gathered = bed.want(service_graph("g", 3, placement="gather"))
    assert len(set(bed.where(gathered).values())) == 1
    apart = bed.want(service_graph("d", 4, placement="distribute"))
    assert len(set(bed.where(apart).values())) == 4


def test_constraints_are_kept() -> None:
    bed = Bed(3)
    constraints = {
        "pinned": [{"vnf": "v1", "node": "n2"}, {"endPoint": "in", "node": "n1"}],
        "antiAffinity": [{"vnfs": ["v0", "v2"]}],
        "nodes": ["n2", "n3"],
    }
    where = bed.where(bed.want(service_graph("c", 3, constraints=constraints)))
    assert where["v1"] == "n2" and where["v0"] != where["v2"]
    assert set(where.values()) <= {"n2", "n3"}


def test_racks_are_kept_apart() -> None:
    bed = Bed(0)
    for number in range(1, 5):
        bed.add(number, rack=f"r{number % 2}")
    bed.probe()
    bed.settle()
    constraints = {"antiAffinity": [{"vnfs": ["v0", "v1"], "domain": "rack"}]}
    where = bed.where(bed.want(service_graph("c", 2, constraints=constraints)))
    assert bed.core.fleet.specs[where["v0"]].rack != bed.core.fleet.specs[where["v1"]].rack


def test_what_has_no_place_says_why_and_gets_one_when_there_is_room() -> None:
    bed = Bed(1)
    constraints: dict[str, Any] = {}
    first = bed.want(service_graph("a", 4, constraints=constraints))
    body = service_graph("b", 2, constraints=constraints)
    second = bed.want(body)
    assert bed.where(second) == {} and _ready(bed, second) == (False, "NoPlace")
    trouble = bed.core.book.deployments[second].trouble
    assert trouble is not None and "cores" in trouble.message
    bed.drop(first)
    bed.run(10)
    assert bed.whole(second, body) and _ready(bed, second) == (True, "Deployed")


def test_an_update_touches_changed_parts_only() -> None:
    bed = Bed()
    body = service_graph(constraints={
        "pinned": [
            {"endPoint": "in", "node": "n1"}, {"vnf": "v0", "node": "n1"},
            {"vnf": "v1", "node": "n2"}, {"vnf": "v2", "node": "n2"},
            {"vnf": "v3", "node": "n3"}, {"endPoint": "out", "node": "n3"},
        ]
    })  # fmt: skip
    uid = bed.want(body)
    before = bed.parts(uid)
    bed.calls.clear()
    changed = _next(body)
    rules = changed["spec"]["forwarding-graph"]["big-switch"]["flow-rules"]
    rules[0]["priority"] = 99  # of the end-point on n1
    bed.want(changed)
    assert [put.node for put in bed.puts()] == ["n1"]
    after = bed.parts(uid)
    assert after["n2"] == before["n2"] and after["n3"] == before["n3"]
    assert bed.whole(uid, changed)


def test_what_is_new_comes_before_what_is_old_goes() -> None:
    """A VNF that moves has its successor, and the rules to it, before its part is removed."""
    bed = Bed()
    body = service_graph("m", 1, constraints={"pinned": [
        {"endPoint": "in", "node": "n1"}, {"endPoint": "out", "node": "n1"},
        {"vnf": "v0", "node": "n2"},
    ]})  # fmt: skip
    uid = bed.want(body)
    bed.calls.clear()
    moved = _next(body)
    moved["spec"]["constraints"]["pinned"][2]["node"] = "n3"
    bed.want(moved)
    kinds = [(type(call).__name__, call.node) for call in bed.calls]
    assert kinds == [("Put", "n3"), ("Put", "n1"), ("Delete", "n2")]
    assert bed.whole(uid, moved) and bed.core.book.deployments[uid].migrations == 1


def test_a_refused_part_is_undone_and_tried_elsewhere() -> None:
    bed = Bed(3)
    bed.nodes["n1"].refuse = 100
    body = service_graph("r", 2, constraints={})
    uid = bed.want(body)
    assert bed.whole(uid, body) and "n1" not in bed.parts(uid)
    pinned = service_graph("p", 2)
    other = bed.want(pinned)
    assert bed.parts(other) == {} and _ready(bed, other) == (False, "Refused")
    bed.nodes["n1"].refuse = 0
    bed.run(200)
    assert bed.whole(other, pinned)


def test_an_update_that_fails_leaves_the_version_before() -> None:
    bed = Bed(3)
    body = service_graph("u", 2)
    uid = bed.want(body)
    before = bed.parts(uid)
    bed.nodes["n3"].refuse = 1000
    changed = _next(body)
    for rule in changed["spec"]["forwarding-graph"]["big-switch"]["flow-rules"]:
        rule["priority"] = 77
    bed.want(changed)
    bed.run(5)
    assert bed.parts(uid) == before
    assert _ready(bed, uid) == (True, "PreviousVersion")
    found = {c.type: c for c in graph_conditions(bed.core, bed.core.book.deployments[uid])}
    assert found["Deployed"].status is False and "n3" in found["Deployed"].message
    assert "Undone" in bed.reasons()


def test_a_failing_node_is_tried_again() -> None:
    bed = Bed(3)
    bed.nodes["n1"].fail = 2
    body = service_graph("f", 2)
    uid = bed.want(body)
    assert not bed.whole(uid, body) if bed.parts(uid).keys() >= {"n1", "n3"} else True
    bed.run(10)
    assert bed.whole(uid, body) and _ready(bed, uid) == (True, "Deployed")


def test_a_lost_node_is_replaced_and_its_return_moves_nothing() -> None:
    bed = Bed(4)
    body = service_graph(constraints={"pinned": [
        {"endPoint": "in", "node": "n1"}, {"endPoint": "out", "node": "n3"}],
        "nodes": ["n2", "n4"]})  # fmt: skip
    uid = bed.want(body)
    carrier = bed.where(uid)["v0"]
    other = {"n2": "n4", "n4": "n2"}[carrier]
    bed.nodes[carrier].alive = False
    bed.run(2)
    assert bed.where(uid) == {}, "one missed probe moves nothing"
    bed.run(5)
    assert set(bed.where(uid).values()) == {other} and bed.whole(uid, body)
    assert _ready(bed, uid) == (True, "Deployed")
    assert bed.core.book.deployments[uid].migrations == 4
    bed.nodes[carrier].alive = True
    bed.run(60)
    assert set(bed.where(uid).values()) == {other}
    assert f"sg-{uid}" not in bed.nodes[carrier].parts, "what it had is removed at its return"
    assert bed.core.book.deployments[uid].migrations == 4 and bed.core.fleet.usable(carrier)


def test_only_what_was_lost_moves() -> None:
    bed = Bed(5)
    bodies = [service_graph(f"g{n}", 2, placement="distribute", constraints={}) for n in range(4)]
    uids = [bed.want(body) for body in bodies]
    before = {uid: bed.where(uid) for uid in uids}
    bed.nodes["n2"].alive = False
    bed.run(6)
    for uid, body in zip(uids, bodies, strict=True):
        after = bed.where(uid)
        assert bed.whole(uid, body) and "n2" not in after.values()
        for vnf, node in before[uid].items():
            assert after[vnf] == node or node == "n2"


def test_a_node_that_comes_and_goes_waits_longer() -> None:
    bed = Bed(2)
    waits = []
    for _ in range(4):
        bed.nodes["n2"].alive = False
        bed.run(6)
        bed.nodes["n2"].alive = True
        began = bed.now
        while not bed.core.fleet.usable("n2"):
            bed.run(1)
        waits.append(bed.now - began)
    assert waits == [11, 21, 41, 41]  # up_s, twice, four times, and longest_s


def test_a_graph_with_an_end_on_a_lost_node_waits_for_it() -> None:
    bed = Bed(3)
    body = service_graph()
    uid = bed.want(body)
    before = bed.where(uid)
    bed.calls.clear()
    bed.nodes["n1"].alive = False
    bed.run(10)
    assert _ready(bed, uid) == (False, "NodeLost") and not bed.puts()
    bed.nodes["n1"].alive = True
    bed.run(3)
    assert bed.where(uid) == before and _ready(bed, uid) == (True, "Deployed")
    assert not bed.puts(), "what it had was still there"


def test_what_else_was_lost_moves_when_the_pinned_node_is_back() -> None:
    bed = Bed(5)
    pinned = [{"endPoint": "in", "node": "n1"}, {"endPoint": "out", "node": "n3"}]
    body = service_graph("w", 2, constraints={"pinned": pinned, "nodes": ["n4", "n5"]})
    uid = bed.want(body)
    (carrier,) = set(bed.where(uid).values())
    bed.nodes["n3"].alive = bed.nodes[carrier].alive = False
    bed.run(20)
    assert _ready(bed, uid) == (False, "NodeLost")
    bed.nodes["n3"].alive = True
    bed.run(20)
    assert bed.whole(uid, body) and carrier not in bed.where(uid).values()


def test_a_node_that_returns_empty_gets_its_parts_back() -> None:
    bed = Bed(3)
    body = service_graph()
    uid = bed.want(body)
    bed.nodes["n1"].alive = False
    bed.run(6)
    bed.nodes["n1"].parts.clear()
    bed.nodes["n1"].alive = True
    bed.run(3)
    assert bed.whole(uid, body)


def test_when_most_nodes_are_lost_nothing_moves() -> None:
    """Then it is likelier that the controller is cut off."""
    bed = Bed(4)
    uid = bed.want(service_graph("w", 2, constraints={}))
    (carrier,) = set(bed.where(uid).values())
    lost = [carrier, *(name for name in bed.nodes if name != carrier)][:3]
    for name in lost:
        bed.nodes[name].alive = False
    bed.run(20)
    assert bed.core.book.deployments[uid].migrations == 0
    for name in lost:
        bed.nodes[name].alive = True
    bed.run(20)
    assert set(bed.where(uid).values()) == {carrier}


def test_a_restart_changes_nothing() -> None:
    """A new core with the statuses and the nodes of the old one has nothing to do."""
    bed = Bed(3)
    bodies = [service_graph(f"g{n}", 1 + n % 2) for n in range(3)]
    uids = [bed.want(body) for body in bodies]
    statuses = [graph_status(bed.core, uid) for uid in uids]
    old = bed.core
    bed.core = Core(Settings(hold=HOLD))
    bed.calls.clear()
    for name, spec in old.fleet.specs.items():
        bed.core.set_node(name, spec, bed.now)
    for body, status in zip(bodies, statuses, strict=True):
        bed.core.set_graph(graph_of(body), bed.now, recorded(status))
    bed.core.start(bed.now)
    bed.run(3)
    bed.run(20)
    assert {type(call).__name__ for call in bed.calls} == {"TakeStock", "Look"}
    assert all(_ready(bed, uid) == (True, "Deployed") for uid in uids)
    for uid in uids:
        bed.drop(uid)
    assert bed.empty()


def test_a_new_graph_waits_until_all_nodes_are_known() -> None:
    """Else what is wanted when a controller starts would all go to the node that answers first."""
    bed = Bed(0)
    bed.add(1)
    bed.add(2)
    bed.core.start(bed.now)
    body = service_graph("early", 1, constraints={"pinned": [{"endPoint": "in", "node": "n2"}]})
    uid = bed.want(body)
    bed.core.probed("n1", True, "up", bed.now)
    bed.settle()
    assert bed.where(uid) == {}
    bed.run(3)
    assert bed.where(uid) == {"v0": "n2"} and bed.whole(uid, body)
    late = Bed(0)
    late.add(1)
    late.add(2)
    late.nodes["n2"].alive = False
    late.core.start(late.now)
    uid = late.want(service_graph("early", 1, constraints={}))
    late.run(HOLD.down_s + 2)
    assert late.where(uid) == {"v0": "n1"}, "a node that never answers holds nothing for long"


def test_what_nobody_wants_goes_and_what_was_lost_comes_back() -> None:
    bed = Bed(3)
    body = service_graph()
    uid = bed.want(body)
    bed.nodes["n2"].parts["sg-gone"] = {"forwarding-graph": {"VNFs": [], "end-points": []}}
    bed.nodes["n2"].parts["mine"] = {"forwarding-graph": {"VNFs": [], "end-points": []}}
    del bed.nodes["n1"].parts[f"sg-{uid}"]
    bed.run(12)
    assert set(bed.nodes["n2"].parts) - {f"sg-{uid}"} == {"mine"}
    assert bed.whole(uid, body)


def test_a_node_that_is_removed_is_emptied_first() -> None:
    bed = Bed(3)
    body = service_graph("x", 2, constraints={})
    uid = bed.want(body)
    carrier = bed.where(uid)["v0"]
    bed.core.remove_node(carrier, bed.now)
    bed.settle()
    assert bed.whole(uid, body) and carrier not in bed.where(uid).values()
    assert bed.core.node_gone(carrier) and not bed.nodes[carrier].parts


def test_a_graph_is_removed_while_a_node_is_lost() -> None:
    bed = Bed(3)
    uid = bed.want(service_graph())
    bed.nodes["n3"].alive = False
    bed.drop(uid)
    assert not bed.core.graph_gone(uid), "it may still answer"
    bed.run(6)
    assert bed.core.graph_gone(uid)
    bed.nodes["n3"].alive = True
    bed.run(3)
    assert bed.empty()


def test_a_cordoned_node_keeps_what_it_has() -> None:
    bed = Bed(2)
    first = bed.want(service_graph("a", 1, constraints={}))
    (carrier,) = bed.where(first).values()
    spec = bed.core.fleet.specs[carrier].model_copy(update={"unschedulable": True})
    bed.core.set_node(carrier, spec, bed.now)
    second = bed.want(service_graph("b", 1, constraints={}))
    assert carrier not in bed.where(second).values() and bed.where(first) == {"v0": carrier}
    found = {one.type: one for one in node_conditions(bed.core, carrier)}
    assert (found["Ready"].status, found["Ready"].reason) == (False, "Unschedulable")


@pytest.mark.parametrize("seed", range(5))
def test_whatever_happens_all_is_well_in_the_end(seed: int) -> None:
    """Random graphs, updates, outages and refusals; then everything works, then nothing is left."""
    import random

    chance = random.Random(seed)
    room = {"cores": 18, "switchCores": 1, "ghz": 2.5, "memoryMb": 8192, "linkGbps": 10}
    bed = Bed(5, resources=room)
    bodies: dict[str, dict[str, Any]] = {}
    for step in range(60):
        what = chance.choice(["want", "want", "update", "drop", "outage", "refuse", "fail", "time"])
        if what == "want" and len(bodies) < 6:
            mode = chance.choice(["mixed", "gather", "distribute"])
            body = service_graph(f"s{step}", chance.randint(1, 3), placement=mode, constraints={})
            bodies[bed.want(body)] = body
        elif what == "update" and bodies:
            uid = chance.choice(sorted(bodies))
            bodies[uid] = _next(bodies[uid])
            for rule in bodies[uid]["spec"]["forwarding-graph"]["big-switch"]["flow-rules"]:
                rule["priority"] = chance.randint(1, 100)
            bed.want(bodies[uid])
        elif what == "drop" and bodies:
            uid = chance.choice(sorted(bodies))
            del bodies[uid]
            bed.drop(uid)
        elif what == "outage":
            node = chance.choice(list(bed.nodes.values()))
            node.alive = not node.alive
        elif what in ("refuse", "fail"):
            setattr(chance.choice(list(bed.nodes.values())), what, chance.randint(1, 4))
        else:
            bed.run(chance.randint(1, 15))
    for node in bed.nodes.values():
        node.alive, node.refuse, node.fail = True, 0, 0
    bed.run(900)
    for uid, body in bodies.items():
        assert bed.whole(uid, body), (uid, bed.core.book.deployments[uid].trouble)
        assert _ready(bed, uid) == (True, "Deployed")
    used = {vni for d in bed.core.book.deployments.values() for vni in d.vnis.values()}
    assert len(used) == len(bed.core.vnis)
    for uid in bodies:
        bed.drop(uid)
    bed.run(10)
    assert bed.empty()


def test_a_part_that_does_not_work_is_told_and_not_moved() -> None:
    """The node starts its VNFs again by itself."""
    bed = Bed(3)
    uid = bed.want(service_graph())
    bed.calls.clear()
    bed.nodes["n1"].faults[uid] = "VNF v0 does not run as wanted"
    bed.run(12)
    assert _ready(bed, uid) == (False, "PartFailed") and "PartFailed" in bed.reasons()
    bed.nodes["n1"].faults.clear()
    bed.run(12)
    assert _ready(bed, uid) == (True, "Deployed") and not bed.puts()


def test_a_node_that_becomes_usable_is_reported() -> None:
    """Its status may have been written between the probe and the answer of what it has."""
    core = Core(Settings(hold=HOLD))
    name, spec = node_of(headrace_node("n1", 1))
    core.set_node(name, spec, 0.0)
    core.start(0.0)
    core.probed(name, True, "up", 0.0)
    (action,) = core.actions(0.0)
    core.book.changed_nodes.clear()  # as who writes the status does
    core.finished(action, ModelNode(name).call(action), 0.1)
    assert core.fleet.usable(name)
    assert core.book.changed_nodes == {name}
