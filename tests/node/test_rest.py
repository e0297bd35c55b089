# SPDX-License-Identifier: Apache-2.0
"""The REST API: codes and shapes that clients of the original node rely on, and our own paths."""

import asyncio
import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.switches.base import PortKind, PortSpec, SwitchError
from headrace.switches.rules import Rule
from tests.node import graphs
from tests.node.api import Api, api_of
from tests.node.crashing import FIRST, SECOND
from tests.node.fake_sysfs import FakeSysfs
from tests.node.fakes import FakeDriver


async def test_life_of_a_graph(api: Api) -> None:
    created = await api("POST", "/NF-FG/", FIRST)
    assert created.status_code == 201
    name = created.json()["nffg-uuid"]
    assert created.headers["location"] == f"http://localhost/NF-FG/{name}"
    listed = await api("GET", "/NF-FG")
    assert listed.json() == {"NF-FG": [{**FIRST, "nffg-uuid": name}]}
    assert (await api("GET", f"/NF-FG/{name}")).json() == FIRST
    status = (await api("GET", f"/NF-FG/status/{name}")).json()
    assert status["status"] == "complete" and status["percentage_completed"] == 100
    assert (await api("PUT", f"/NF-FG/{name}", SECOND)).status_code == 202
    assert (await api("GET", f"/NF-FG/{name}")).json() == SECOND
    assert len((await api("GET", f"/NF-FG/status/{name}")).json()["vnfs"]) == 2
    deleted = await api("DELETE", f"/NF-FG/{name}")
    assert deleted.status_code == 204 and deleted.content == b""
    assert (await api("GET", "/NF-FG")).json() == {"NF-FG": []}


async def test_put_creates_under_the_clients_id(api: Api) -> None:
    assert (await api("PUT", "/NF-FG/1", FIRST)).status_code == 201
    assert (await api("PUT", "/NF-FG/1", FIRST)).status_code == 202
    assert [record.id for record in api.node.graphs.records()] == ["1"]


async def test_put_that_updates_is_201_for_old_clients(rundir: Path) -> None:
    async for api in api_of(rundir, rest={"legacy": True}):
        assert (await api("PUT", "/NF-FG/1", FIRST)).status_code == 201
        assert (await api("PUT", "/NF-FG/1", SECOND)).status_code == 201


async def test_unknown_graphs_are_404(api: Api) -> None:
    for method, path in (
        ("GET", "/NF-FG/x"),
        ("GET", "/NF-FG/status/x"),
        ("DELETE", "/NF-FG/x"),
        ("GET", "/node/vnfs/x/v0/cycles"),
        ("GET", "/nonsense"),
    ):
        answer = await api(method, path)
        assert answer.status_code == 404 and answer.json()["message"], path


async def test_slashes_do_not_matter(api: Api) -> None:
    assert (await api("PUT", "http://localhost//NF-FG//1/", FIRST)).status_code == 201
    assert (await api("GET", "http://localhost/NF-FG//status/1//")).status_code == 200
    assert (await api("GET", "/nf-fg/1")).status_code == 404  # names are case-sensitive


@pytest.mark.parametrize(
    ("body", "module", "text"),
    [
        (b"{", "json", "the body is no JSON"),
        (b"\xff", "json", "the body is no UTF-8"),
        (b"[]", "json", "the body is no JSON object"),
        (b"[" * 100_000, "json", "nested too deeply"),
        (b'{"forwarding-graph": {"VNFs": [], "VNFs": []}}', "json", "the key 'VNFs' twice"),
        ({"forwarding-graph": None}, "nffg", "forwarding-graph: must be an object (found None)"),
        (
            graphs.document([], [], [{"id": "v" * 65}]),
            "nffg",
            "VNFs[0].id: must have at most 64 characters (found 'vvv",
        ),
        ({"flow-graph": {}}, "nffg", "dialect of before 2016"),
        ({"forwarding-graph": {"VNFs": {}}}, "nffg", "VNFs: must be a list"),
        (
            {"forwarding-graph": {"end-points": [{"id": "a"}]}},
            "nffg",
            "end-points[0]: an end-point has exactly one object named as its type",
        ),
        (graphs.chain("nosuch", 1), "templates", "VNFs[0]: vnf_template 'nosuch' is unknown"),
        (
            graphs.document([graphs.interface("a", "eth7")], []),
            "end-points",
            "end-points[0].interface.if-name: this node has no port 'eth7'; it has: p0, p1",
        ),
        (
            graphs.document([], [], [graphs.vnf("v", "pass", 3)]),
            "templates",
            "VNFs[0].ports: template pass has 2 ports, the graph lists 3",
        ),
        (
            graphs.document([{"id": "t", "management": {"configuration": "pppoe"}}], []),
            "end-points",
            "end-points[0].management.configuration: 'pppoe' is neither static nor DHCP",
        ),
        (
            graphs.document([graphs.interface("a", "p0"), graphs.interface("a", "p1")], []),
            "nffg",
            "end-points[1].id: 'a' is also the id of end-points[0]",
        ),
        (
            graphs.document([], [graphs.rule("r", {"port_in": "endpoint:a", "colour": "red"})]),
            "nffg",
            "big-switch.flow-rules[0]",
        ),
    ],
)
async def test_bad_graphs_are_400_and_leave_nothing(
    api: Api, body: Any, module: str, text: str
) -> None:
    before = api.world.read()
    answer = await api("POST", "/NF-FG", body)
    assert answer.status_code == 400
    assert answer.json()["module"] == module
    assert text in answer.json()["message"]
    assert api.world.read() == before and api.node.graphs.records() == []


async def test_too_few_cores(rundir: Path) -> None:
    async for api in api_of(rundir, oversubscribe=False, cores={"vnf": [0], "switch": [1]}):
        assert (await api("POST", "/NF-FG", FIRST)).status_code == 201
        refused = await api("POST", "/NF-FG", graphs.document([], [], [graphs.vnf("v", "pass")]))
        assert refused.status_code == 400
        message = refused.json()["message"]
        assert message.startswith("VNFs[0]: needs 1 free core; of the VNF cores [0] none is free")
        assert "oversubscribe: true" in message
        resources = (await api("GET", "/node/resources")).json()
        assert not resources["oversubscribed"]
        assert resources["memory_mb"]["used"] == 256 + 64
        used = 256 + 64 if api.node.hugepages else 0
        assert resources["hugepages_mb"]["used"] == used


async def test_too_little_memory(rundir: Path) -> None:
    async for api in api_of(rundir, memory_mb=300):
        refused = await api("POST", "/NF-FG", FIRST)
        assert refused.status_code == 400
        assert "VNFs[0]: needs 64 MB of memory, 44 MB are left" in refused.json()["message"]


async def test_oversubscription_is_reported(rundir: Path) -> None:
    async for api in api_of(rundir, cores={"vnf": [0], "switch": [1]}):
        assert (await api("PUT", "/NF-FG/1", SECOND)).status_code == 201
        resources = (await api("GET", "/node/resources")).json()
        assert resources["oversubscribed"]
        assert [core["polling"] for core in resources["cores"]] == [2, 1]


async def test_pci_functions_and_what_may_be_done_to_them(rundir: Path) -> None:
    async for api in api_of(rundir):
        wan = PortSpec(name="p9", kind=PortKind.DPDK, options={"devargs": "03:00.0"})
        api.node.ports["wan"] = wan
        sysfs = FakeSysfs(rundir / "sys")
        sysfs.add_driver("vfio-pci")
        sysfs.add_driver("i40e", "0000:04:00.0")
        sysfs.add_function("0000:03:00.0", driver="vfio-pci", iommu_group=1)
        sysfs.add_function("0000:04:00.0", driver="i40e", iommu_group=2, total_vfs=2)
        api.node.sysfs = sysfs
        functions = (await api("GET", "/node/resources")).json()["pci"]
        assert [(f["address"], f["used_by"]) for f in functions] == [
            ("0000:03:00.0", ["port wan"]),
            ("0000:04:00.0", []),
        ]
        used = await api("PUT", "/node/pci/0000:03:00.0/driver", {"driver": None})
        assert used.status_code == 400
        assert "in use by the node's port wan" in used.json()["message"]
        made = await api("PUT", "/node/pci/0000:04:00.0/virtual-functions", {"count": 2})
        assert made.json()["virtual_functions"]["addresses"] == ["0000:04:10.0", "0000:04:10.1"]
        bound = await api("PUT", "/node/pci/0000:04:10.1/driver", {"driver": "vfio-pci"})
        assert bound.json()["driver"] == "vfio-pci"
        wrong = await api("PUT", "/node/pci/0000:04:10.1/settings", {"vlan": 5000})
        assert wrong.json()["message"].startswith("vlan 5000: give 1 to 4094")
        missing = await api("PUT", "/node/pci/0000:09:00.0/driver", {"driver": None})
        assert missing.status_code == 404


async def test_a_switch_that_fails_is_500_and_everything_undone(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise SwitchError("table full")

    monkeypatch.setattr(api.node.driver, "install_rules", fail)
    answer = await api("POST", "/NF-FG", FIRST)
    assert answer.status_code == 500
    assert answer.json() == {"module": "lifecycle", "message": "table full"}
    assert (await api("GET", "/NF-FG")).json() == {"NF-FG": []}
    assert set(api.world.read()["ports"]) == {"p0", "p1"}


@pytest.fixture
def ended(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Says whether the switch has ended."""

    def say(is_so: bool) -> None:
        watched = ("switch",) if is_so else ()  # no such process runs here
        monkeypatch.setattr(FakeDriver, "watched", lambda _: watched)

    return say


async def test_a_switch_that_has_ended_is_503(api: Api, ended: Callable[[bool], None]) -> None:
    await api("PUT", "/NF-FG/g", FIRST)
    made = list(api.world.changes)
    ended(True)
    for method, path, body in (
        ("POST", "/NF-FG", graphs.port_to_port()),
        ("PUT", "/NF-FG/h", graphs.port_to_port()),
        ("PUT", "/NF-FG/g", SECOND),
        ("DELETE", "/NF-FG/g", None),
    ):
        answer = await api(method, path, body)
        assert answer.status_code in (400, 503), answer.text  # the ports are in use by g
        if answer.status_code == 503:
            assert answer.headers["Retry-After"] == "1"
            assert "the switch has ended; the node starts it again" in answer.json()["message"]
    assert answer.status_code == 503
    assert api.world.changes == made
    ended(False)
    assert (await api("PUT", "/NF-FG/g", SECOND)).status_code == 202


async def test_a_change_under_which_the_switch_ends_is_503_and_finished_later(
    api: Api, ended: Callable[[bool], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def end(*_: object) -> None:
        ended(True)
        raise SwitchError("the connection is closed")

    async def until_ended(method: str, body: Any = None) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(api.node.driver, "install_rules", end)
            patch.setattr(api.node.driver, "remove_rules", end)
            answer = await api(method, "/NF-FG/g", body)
        assert answer.status_code == 503 and answer.headers["Retry-After"] == "1"
        assert "finished when it is there again" in answer.json()["message"]
        status = (await api("GET", "/NF-FG/status/g")).json()
        assert "the switch has ended" in status["message"]

    async def come_again() -> None:
        ended(False)
        api.world.change("the switch is empty", lambda held: held["rules"].clear())
        monkeypatch.setattr(api.node.driver, "_adopts", False)
        await api.node.fill_switch()

    await until_ended("PUT", FIRST)
    await come_again()
    assert (await api("GET", "/NF-FG/status/g")).json()["status"] == "complete"
    await until_ended("PUT", SECOND)
    await come_again()
    assert (await api("GET", "/NF-FG/status/g")).json()["status"] == "complete"
    assert (await api("GET", "/NF-FG/g")).json() == SECOND
    await until_ended("DELETE")
    await come_again()
    assert (await api("GET", "/NF-FG")).json() == {"NF-FG": []}
    assert set(api.world.read()["ports"]) == {"p0", "p1"}


async def test_without_waiting(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    one = graphs.shared(copy.deepcopy(FIRST))
    assert (await api("PUT", "/NF-FG/1?wait=false", one)).status_code == 201
    await api.node.graphs.settle()
    assert (await api("GET", "/NF-FG/status/1")).json()["status"] == "complete"

    async def fail(*_: object) -> None:
        raise SwitchError("table full")

    monkeypatch.setattr(api.node.driver, "install_rules", fail)
    two = copy.deepcopy(one)
    for entry in two["forwarding-graph"]["big-switch"]["flow-rules"]:
        entry["match"]["dest_mac"] = "02:00:00:00:00:01"
        entry["priority"] = 20
    assert (await api("PUT", "/NF-FG/2?wait=false", two)).status_code == 201
    await api.node.graphs.settle()
    status = (await api("GET", "/NF-FG/status/2")).json()
    assert status["status"] == "error" and status["message"] == "table full"
    assert (await api("DELETE", "/NF-FG/2")).status_code == 204


async def test_a_graph_in_change_is_409(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await api("PUT", "/NF-FG/1", FIRST)
    install, gate = api.node.driver.install_rules, asyncio.Event()

    async def wait(lsi: str, rules: Sequence[Rule]) -> None:
        await gate.wait()
        await install(lsi, rules)

    monkeypatch.setattr(api.node.driver, "install_rules", wait)
    assert (await api("PUT", "/NF-FG/1?wait=false", SECOND)).status_code == 202
    status = (await api("GET", "/NF-FG/status/1")).json()
    assert status["status"] == "in_progress" and status["percentage_completed"] < 100
    assert (await api("PUT", "/NF-FG/1", FIRST)).status_code == 409
    gate.set()
    await api.node.graphs.settle()
    assert (await api("GET", "/NF-FG/1")).json() == SECOND


async def test_delete_one_rule(api: Api) -> None:
    await api("PUT", "/NF-FG/1", FIRST)
    assert (await api("DELETE", "/NF-FG/1/r0")).status_code == 204
    document = (await api("GET", "/NF-FG/1")).json()
    rules = document["forwarding-graph"]["big-switch"]["flow-rules"]
    assert [entry["id"] for entry in rules] == ["r1", "r2", "r3"]
    assert (await api("DELETE", "/NF-FG/1/r0")).status_code == 404


async def test_other_dialects(api: Api) -> None:
    document = {
        "forwarding-graph": {
            "id": "00000001",
            "name": "old",
            "domain": "here",
            "VNFs": [
                {
                    "id": "v",
                    "name": "pass",
                    "functional_capability": "pass",
                    "description": "",
                    "user_data": "x",
                    "ports": [
                        {"id": "USER:0", "trusted": False},
                        {"id": "WAN:0", "gui-position": {"x": 1, "y": 2}},
                    ],
                }
            ],
            "end-points": [
                {"id": "e", "type": "interface", "interface": {"interface": "p0", "node-id": "n"}}
            ],
            "big-switch": {
                "flow-rules": [
                    {
                        "id": "1",
                        "match": {"port_in": "endpoint:e", "ether_type": 2048},
                        "actions": [{"output_to_port": "vnf:v:USER:0"}],
                        "colour": "red",
                    }
                ]
            },
        }
    }
    assert (await api("PUT", "/NF-FG/1", document)).status_code == 201
    assert (await api("GET", "/NF-FG/1")).json() == document  # given back as it came
    warnings = (await api("GET", "/NF-FG/status/1")).json()["warnings"]
    assert warnings == [
        "big-switch.flow-rules[0].colour: unknown key ignored",
        "VNFs[0].user_data: template pass does not take it, ignored",
    ]


async def test_templates(api: Api) -> None:
    listed = (await api("GET", "/v2/nf_template/")).json()["list"]
    assert {"pass", "router", "bridge"} <= {entry["id"] for entry in listed}
    template = (await api("GET", "/v2/nf_template/pass/")).json()
    assert template["vnf-type"] == "dpdk"
    capable = (await api("GET", "/v2/nf_capability/pass")).json()
    assert capable["list"][0]["template"] == template
    assert (await api("GET", "/v2/nf_template/nosuch/")).status_code == 404
    assert (await api("GET", "/conf")).json()["unPhisicalPorts"] == ["p0", "p1"]


async def test_authentication_is_off(api: Api) -> None:
    assert (await api("POST", "/login", {"username": "a", "password": "b"})).status_code == 501


async def test_node(api: Api) -> None:
    await api("PUT", "/NF-FG/1", FIRST)
    node = (await api("GET", "/node")).json()
    assert node["switch"]["name"] == "fake" and node["graphs"] == 1
    ports = {port["name"]: port for port in (await api("GET", "/node/ports")).json()}
    assert ports["p0"]["attach"] == {"devargs": "net_fake{n},port=p0"}
    assert ports["p0"]["users"] == ["1"]
    cycles = (await api("GET", "/node/switch/cycles")).json()
    counted = {"core": 1, "busy_cycles": 1, "idle_cycles": 2, "packets": 3}
    not_counted = dict.fromkeys(("rounds", "busy_rounds", "bursts", "full_bursts"))
    assert cycles["workers"] == [{**counted, **not_counted}]
    ports = (await api("GET", "/node/switch/ports")).json()
    assert {"lsi", "port", "tx_packets", "tx_dropped"} <= set(ports[0])
    assert (await api("GET", "/node/vnfs/1/v0/cycles")).json()["packets"] == 3
    assert (await api("PUT", "/node/paused", {"paused": True})).json() == {"paused": True}
    assert (await api("GET", "/node")).json()["paused"] is True
    wrong = await api("PUT", "/node/paused", {"paused": "perhaps"})
    assert wrong.status_code == 400 and "paused" in wrong.json()["message"]
    metrics = (await api("GET", "/metrics")).text
    assert 'headrace_graphs{status="complete"} 1.0' in metrics
    assert "/NF-FG/{graph_id}" in (await api("GET", "/openapi.json")).json()["paths"]


async def test_logs_and_consoles(api: Api) -> None:
    assert (await api("PUT", "/NF-FG/g", FIRST)).status_code == 201
    log = api.node.supervisor.log_of("vnf-v0")
    log.parent.mkdir(exist_ok=True)
    log.write_text("one\ntwo\n")
    answer = await api("GET", "/node/vnfs/g/v0/log?lines=1")
    assert (answer.status_code, answer.text) == (200, "two\n")
    assert answer.headers["content-type"].startswith("text/plain")
    log.write_text("one\ntwo\nthree\n")
    offset = answer.headers["x-log-offset"]
    assert (await api("GET", f"/node/vnfs/g/v0/log?offset={offset}")).text == "three\n"
    answer = await api("GET", "/node/vnfs/g/v0/console")
    assert answer.status_code == 404 and "has no console" in answer.json()["message"]
    for path in ("/node/vnfs/g/none/log", "/node/vnfs/none/v0/log", "/node/vnfs/g/none/console"):
        assert (await api("GET", path)).status_code == 404
    for query in ("lines=-1", "lines=x", "offset=-1", "lines=999999"):
        assert (await api("GET", f"/node/vnfs/g/v0/log?{query}")).status_code == 400
