# SPDX-License-Identifier: Apache-2.0
"""The extender of kube-scheduler: what it lets pass, and in which order."""

import asyncio
import copy
from typing import Any

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from headrace.cluster.core.fleet import Fleet
from headrace.cluster.core.placing import place
from headrace.cluster.resources import graph_of, node_of
from headrace.cluster.scheduling.bindings import NotBound
from headrace.cluster.scheduling.cost import NodeState, Score, VnfDemand, needs_of, ranks, score
from headrace.cluster.scheduling.extender import app_of
from headrace.cluster.scheduling.pods import WrongPod, demand_of
from headrace.cluster.scheduling.service import Scores, states
from tests.cluster.objects import headrace_node, service_graph


def _node(name: str, *, ready: bool = True, used: Any = None, vnfs: int = 0, **spec: Any) -> Any:
    body = headrace_node(name, int(name[1:]), **spec)
    condition = {"type": "Ready", "status": "True" if ready else "False", "message": "as asked"}
    body["status"] = {"conditions": [condition], "used": used or {}, "vnfs": vnfs}
    return body


def _pod(name: str = "p", node: str | None = None, cores: str = "1", **notes: str) -> Any:
    annotations = {f"headrace.dev/{key.replace('_', '-')}": value for key, value in notes.items()}
    requests = {"headrace.dev/vnf-core": cores} if cores != "0" else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": f"uid-{name}",
            "annotations": annotations,
            "labels": {"headrace.dev/vnf": "true"},
        },
        "spec": {"nodeName": node, "containers": [{"resources": {"requests": requests}}]},
        "status": {},
    }


class _Source:
    """An API server that binds pods as one does: once, and to the pod of that UID."""

    def __init__(self, nodes: list[Any], pods: list[Any]) -> None:
        self.node_bodies, self.pods = nodes, pods
        self.fault = ""
        self.bindings: list[tuple[str, str]] = []
        self.binding = asyncio.Event()
        self.binding.set()

    async def nodes(self) -> list[Any]:
        return self.node_bodies

    async def vnf_pods(self) -> list[Any]:
        return copy.deepcopy(self.pods)

    async def pod(self, namespace: str, name: str) -> Any:
        found = [one for one in self.pods if one["metadata"]["name"] == name]
        if not found:
            raise OSError(f"pod {namespace}/{name}: 404 Not Found")
        return copy.deepcopy(found[0])

    async def bind(self, namespace: str, name: str, uid: str, node: str) -> None:
        await self.binding.wait()
        (found,) = (one for one in self.pods if one["metadata"]["name"] == name)
        if self.fault or found["spec"]["nodeName"] or found["metadata"]["uid"] != uid:
            raise OSError(self.fault or f"pod {namespace}/{name}: 409 Conflict")
        found["spec"]["nodeName"] = node
        self.bindings.append((name, node))


def _binding(name: str, node: str) -> dict[str, str]:
    """ExtenderBindingArgs as kube-scheduler writes them."""
    return {"PodName": name, "PodNamespace": "default", "PodUID": f"uid-{name}", "Node": node}


async def _client(nodes: list[Any], pods: list[Any] | None = None) -> TestClient:
    scores = Scores(_Source(nodes, pods or []))
    await scores.refresh()
    return TestClient(app_of(scores))


async def test_filter_tells_what_can_change_and_what_cannot() -> None:
    full = {"cores": 4.0}
    client = await _client(
        [_node("n1"), _node("n2", used=full), _node("n3", ready=False),
         _node("n4", model={"entry": 100, "visit": {"memif": 100}})]
    )  # fmt: skip
    names = ["n1", "n2", "n3", "n4", "n5"]
    answer = client.post("/filter", json={"Pod": _pod(pps="1000"), "NodeNames": names}).json()
    assert answer["NodeNames"] == ["n1"] and answer["Error"] == ""
    assert set(answer["FailedNodes"]) == {"n2", "n3"}
    assert "cores" in answer["FailedNodes"]["n2"]
    assert set(answer["FailedAndUnresolvableNodes"]) == {"n4", "n5"}


async def test_nodes_may_come_as_objects_and_in_small_letters() -> None:
    client = await _client([_node("n1"), _node("n2", used={"cores": 4.0})])
    items = [{"metadata": {"name": name}} for name in ("n1", "n2")]
    body = {"pod": _pod(pps="1"), "nodes": {"kind": "NodeList", "items": items}}
    answer = client.post("/filter", json=body).json()
    assert answer["Nodes"] == {"kind": "NodeList", "items": items[:1]}


async def test_the_cheapest_node_is_first() -> None:
    client = await _client(
        [_node("n1", prices={"node": 1}), _node("n2", prices={"node": 5}),
         _node("n3", prices={"node": 8}, vnfs=3, used={"cores": 1.0})]
    )  # fmt: skip
    body = {"Pod": _pod(pps="10000"), "NodeNames": ["n1", "n2", "n3"]}
    answer = client.post("/prioritize", json=body).json()
    scores = {one["Host"]: one["Score"] for one in answer}
    assert scores["n1"] == 10 and scores["n2"] == 0 and 0 < scores["n3"] < 10


async def test_a_pod_that_is_no_vnf_passes_everywhere() -> None:
    client = await _client([])
    body = {"Pod": _pod(cores="0"), "NodeNames": ["a", "b"]}
    assert client.post("/filter", json=body).json()["NodeNames"] == ["a", "b"]
    assert client.post("/prioritize", json=body).json() == [
        {"Host": "a", "Score": 0}, {"Host": "b", "Score": 0},
    ]  # fmt: skip


async def test_pods_count_on_their_nodes() -> None:
    pods = [_pod(f"p{n}", "n1", pps="1000") for n in range(4)]
    client = await _client([_node("n1")], pods)
    body = {"Pod": _pod(pps="1000"), "NodeNames": ["n1"]}
    assert client.post("/filter", json=body).json()["NodeNames"] == []
    pods[0]["status"]["phase"] = "Succeeded"
    client = await _client([_node("n1")], pods)
    assert client.post("/filter", json=body).json()["NodeNames"] == ["n1"]


async def test_what_is_wrong_is_told() -> None:
    client = await _client([_node("n1")])
    wrong = {"Pod": _pod(pps="many"), "NodeNames": ["n1"]}
    assert "headrace.dev/pps: 'many'" in client.post("/filter", json=wrong).json()["Error"]
    assert client.post("/filter", content=b"{").status_code == 400
    assert client.post("/filter", json={"NodeNames": []}).status_code == 400
    assert client.post("/scores", json={"pps": -1}).status_code == 400
    told = client.post("/scores", json={"pps": 1000}).json()
    assert told["n1"]["cost"] > 1 and told["n1"]["reason"] == ""
    assert client.get("/healthz").status_code == 200


def test_nodes_that_are_not_known_yet_are_an_error() -> None:
    client = TestClient(app_of(Scores(_Source([], []))))
    body = {"Pod": _pod(pps="1"), "NodeNames": ["n1"]}
    assert "not known yet" in client.post("/filter", json=body).json()["Error"]
    assert client.get("/healthz").status_code == 503


def test_the_score_is_the_cost_by_which_graphs_are_placed() -> None:
    """A graph of one VNF costs on a node what the extender says of a pod with its demand."""
    name, spec = node_of(headrace_node("n1", prices={"node": 3, "core": 0.5}))
    fleet = Fleet()
    fleet.set_node(name, spec)
    fleet.set_usable(name, True)
    graph = graph_of(service_graph("g", 1, constraints={}))
    placed = place(fleet, graph)
    demand = VnfDemand(pps=10_000, frame_bytes=512, cores=1, memory_mb=256)
    found = score(NodeState(spec, {}), demand)
    assert found.cost == pytest.approx(placed.cost)
    assert needs_of(spec, demand).tolist() == placed.takings.needs["n1"].tolist()


@given(costs=st.lists(st.none() | st.floats(0, 1e6), min_size=1, max_size=8))
def test_ranks_keep_the_order(costs: list[float | None]) -> None:
    scores = {str(n): Score(cost) for n, cost in enumerate(costs)}
    found = ranks(scores, 10)
    for one, a in scores.items():
        assert 0 <= found[one] <= 10
        for other, b in scores.items():
            if a.cost is not None and b.cost is not None and a.cost <= b.cost:
                assert found[one] >= found[other]


def test_a_node_that_can_not_be_read_is_left_out() -> None:
    wrong = copy.deepcopy(_node("n1"))
    del wrong["spec"]["model"]
    assert set(states([wrong, _node("n2")], [])) == {"n2"}


async def test_pods_that_come_at_once_do_not_share_what_one_of_them_needs() -> None:
    """kube-scheduler has chosen n1 for both before the API server tells of either."""
    source = _Source([_node("n1"), _node("n2")], [_pod("a", cores="3"), _pod("b", cores="3")])
    scores = Scores(source)
    await scores.refresh()
    client = TestClient(app_of(scores))
    names = ["n1", "n2"]
    for pod in source.pods:
        answer = client.post("/filter", json={"Pod": pod, "NodeNames": names}).json()
        assert answer["NodeNames"] == names
    assert client.post("/bind", json=_binding("a", "n1")).json() == {"Error": ""}
    assert "cores" in client.post("/bind", json=_binding("b", "n1")).json()["Error"]
    # The scheduler tries the second again, long before nodes are read again.
    again = {"Pod": source.pods[1], "NodeNames": names}
    assert client.post("/filter", json=again).json()["NodeNames"] == ["n2"]
    assert client.post("/bind", json=_binding("b", "n2")).json() == {"Error": ""}
    assert source.bindings == [("a", "n1"), ("b", "n2")]


async def test_a_reservation_counts_once_and_until_the_pod_is_seen() -> None:
    pods = [_pod("a", cores="2"), _pod("b", cores="2"), _pod("c", cores="2")]
    source = _Source([_node("n1")], pods)
    scores = Scores(source)
    await scores.refresh()
    source.binding.clear()  # the API server takes its time
    bound = asyncio.create_task(scores.bind("default", "a", "uid-a", "n1"))
    await asyncio.sleep(0)
    await scores.refresh()
    assert scores.nodes["n1"].used["cores"] == 2 and scores.nodes["n1"].vnfs == 1
    source.binding.set()
    await bound
    await scores.refresh()
    assert scores.nodes["n1"].used["cores"] == 2 and scores.nodes["n1"].vnfs == 1
    await scores.bind("default", "b", "uid-b", "n1")
    with pytest.raises(NotBound, match="cores"):
        await scores.bind("default", "c", "uid-c", "n1")
    del source.pods[:2]  # they are gone before they were seen
    await scores.refresh()
    await scores.bind("default", "c", "uid-c", "n1")
    assert scores.nodes["n1"].used["cores"] == 2


async def test_a_pod_that_is_bound_while_pods_are_read_still_counts() -> None:
    """The list may be from before the binding."""
    source = _Source([_node("n1")], [_pod("a", cores="3"), _pod("b", cores="3")])
    scores = Scores(source)
    await scores.refresh()
    listed, go_on = asyncio.Event(), asyncio.Event()
    read = source.vnf_pods

    async def slow() -> list[Any]:
        answer = await read()
        listed.set()
        await go_on.wait()
        return answer

    source.vnf_pods = slow  # type: ignore[method-assign]
    reading = asyncio.create_task(scores.refresh())
    await listed.wait()
    await scores.bind("default", "a", "uid-a", "n1")
    go_on.set()
    await reading
    with pytest.raises(NotBound, match="cores"):
        await scores.bind("default", "b", "uid-b", "n1")


async def test_what_the_api_server_refuses_is_not_reserved_for_long() -> None:
    source = _Source([_node("n1")], [_pod("a", cores="3"), _pod("b", cores="3")])
    scores = Scores(source)
    await scores.refresh()
    client = TestClient(app_of(scores))
    source.fault = "pod default/a: 409 Conflict"
    assert "409" in client.post("/bind", json=_binding("a", "n1")).json()["Error"]
    source.fault = ""
    await scores.refresh()
    assert scores.nodes["n1"].vnfs == 0
    assert client.post("/bind", json=_binding("b", "n1")).json() == {"Error": ""}


async def test_bindings_that_cannot_be() -> None:
    wrong = _pod("wrong", pps="many")
    plain = _pod("plain", cores="0")
    source = _Source([_node("n1")], [_pod("a"), wrong, plain])
    scores = Scores(source)
    client = TestClient(app_of(scores))
    assert "not known yet" in client.post("/bind", json=_binding("a", "n1")).json()["Error"]
    await scores.refresh()
    replaced = {**_binding("a", "n1"), "PodUID": "uid-of-its-predecessor"}
    assert "another pod" in client.post("/bind", json=replaced).json()["Error"]
    assert "404" in client.post("/bind", json=_binding("gone", "n1")).json()["Error"]
    assert "no HeadraceNode" in client.post("/bind", json=_binding("a", "n9")).json()["Error"]
    assert "'many'" in client.post("/bind", json=_binding("wrong", "n1")).json()["Error"]
    assert client.post("/bind", json={"PodName": "a"}).status_code == 400
    # A pod that is no VNF may go anywhere.
    assert client.post("/bind", json=_binding("plain", "elsewhere")).json() == {"Error": ""}
    assert source.bindings == [("plain", "elsewhere")]


def test_memory_of_a_pod_is_that_in_hugepages_and_other() -> None:
    body = _pod()
    requests = body["spec"]["containers"][0]["resources"]["requests"]
    requests.update({"headrace.dev/memory-64mi": "1", "headrace.dev/hugepages-64mi": "3"})
    found = demand_of(body)
    assert found is not None and found.memory_mb == 256
    requests["headrace.dev/hugepages-64mi"] = "many"
    with pytest.raises(WrongPod, match="hugepages-64mi"):
        demand_of(body)
