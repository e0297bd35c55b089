# SPDX-License-Identifier: Apache-2.0
"""Ports that come and go while the node runs: PUT and DELETE /node/ports/{name}."""

from pathlib import Path
from typing import Any

import pytest

from headrace.node import outer_ports
from headrace.node.config import PortConfig
from headrace.switches.base import PortKind, SwitchError
from tests.node.api import Api
from tests.node.crashing import make_node
from tests.node.fakes import FakeDriver, World
from tests.node.graphs import document, interface, out, rule

POD = {"kind": "memif", "options": {"socket": "/run/pod/net1.sock"}, "owner": "sandbox-a"}
JOINED = document(
    [interface("a", "pod0"), interface("b", "p0")],
    [
        rule("1", {"port_in": "endpoint:a"}, out("endpoint:b")),
        rule("2", {"port_in": "endpoint:b"}, out("endpoint:a")),
    ],
)


async def _port(api: Api, name: str) -> dict[str, Any] | None:
    listed = (await api("GET", "/node/ports")).json()
    return next((row for row in listed if row["name"] == name), None)


async def test_a_port_is_attached_and_used_by_a_graph(api: Api) -> None:
    assert (await api("PUT", "/NF-FG/g", JOINED)).status_code == 400
    made = await api("PUT", "/node/ports/pod0", POD)
    assert made.status_code == 201, made.text
    assert (made.json()["owner"], made.json()["kind"]) == ("sandbox-a", "memif")
    assert made.json()["ofport"] > 0
    changes = len(api.world.changes)
    assert (await api("PUT", "/node/ports/pod0", POD)).status_code == 200
    assert len(api.world.changes) == changes  # it is as it was
    assert (await api("PUT", "/NF-FG/g", JOINED)).status_code == 201
    port = await _port(api, "pod0")
    assert port is not None and port["users"] == ["g"]


async def test_the_ports_of_node_yaml_are_not_touched(api: Api) -> None:
    assert (await api("PUT", "/node/ports/p0", POD)).status_code == 409
    assert (await api("DELETE", "/node/ports/p0")).status_code == 404
    port = await _port(api, "p0")
    assert port is not None and port["owner"] is None


async def test_another_owner_is_refused(api: Api) -> None:
    assert (await api("PUT", "/node/ports/pod0", POD)).status_code == 201
    later = {**POD, "owner": "sandbox-b"}
    assert (await api("PUT", "/node/ports/pod0", later)).status_code == 409
    assert (await api("DELETE", "/node/ports/pod0?owner=sandbox-b")).status_code == 409
    assert (await api("DELETE", "/node/ports/pod0?owner=sandbox-a")).status_code == 204
    assert (await api("PUT", "/node/ports/pod0", later)).status_code == 201


@pytest.mark.parametrize(
    ("name", "change", "said"),
    [
        ("pod0", {"kind": "gtpu"}, "it has: memif, vhost-user"),
        ("pod0", {"kind": "nothing"}, "kind"),
        ("a-name-that-is-too-long", {}, "name"),
        ("pod0", {"owner": ""}, "owner"),
        ("pod0", {"more": 1}, "more"),
    ],
)
async def test_what_is_no_port_is_refused(
    api: Api, name: str, change: dict[str, Any], said: str
) -> None:
    answer = await api("PUT", f"/node/ports/{name}", {**POD, **change})
    assert (answer.status_code, said in answer.json()["message"]) == (400, True), answer.text
    assert await _port(api, name) is None


async def test_a_port_that_a_graph_uses_goes_by_force_only(api: Api) -> None:
    await api("PUT", "/node/ports/pod0", POD)
    await api("PUT", "/NF-FG/g", JOINED)
    refused = await api("DELETE", "/node/ports/pod0")
    assert (refused.status_code, "in use by g" in refused.text) == (409, True)
    assert (await api("DELETE", "/node/ports/pod0?force=true")).status_code == 204
    assert "pod0" not in api.world.read()["ports"]
    status = (await api("GET", "/NF-FG/status/g")).json()
    assert (status["status"], "pod0 is not attached" in status["message"]) == ("error", True)
    assert len(api.world.read()["rules"]) == 0

    assert (await api("PUT", "/node/ports/pod0", POD)).status_code == 201
    assert (await api("GET", "/NF-FG/status/g")).json()["status"] == "complete"
    assert len(api.world.read()["rules"]) == 2
    assert (await api("DELETE", "/NF-FG/g")).status_code == 204
    assert (await api("DELETE", "/node/ports/pod0")).status_code == 204


async def test_a_port_that_cannot_be_made_is_forgotten(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(what: str, number: int) -> None:
        if what == "add pod0":
            raise SwitchError("no such device")

    monkeypatch.setattr(api.world, "_before", fail)
    answer = await api("PUT", "/node/ports/pod0", POD)
    assert (answer.status_code, "no such device" in answer.text) == (503, True)
    assert await _port(api, "pod0") is None


@pytest.mark.parametrize("adopts", [True, False])
async def test_it_is_there_after_a_restart(rundir: Path, adopts: bool) -> None:
    world = World(rundir / "world.json")
    node = make_node(rundir, world)
    await node.start()
    port = {"name": "pod0", "kind": "memif"}
    await node.outer.attach(PortConfig.model_validate(port), "a")
    await node.graphs.create("g", JOINED)
    await node.graphs.settle()
    await node.close()
    if not adopts:
        (rundir / "world.json").unlink()
    node = make_node(rundir, world, adopts)
    await node.start()
    assert node.outer.owners() == {"pod0": "a"}
    assert "pod0" in world.read()["ports"]
    assert len(world.read()["rules"]) == 2
    await node.close()


async def test_an_interface_that_has_gone_does_not_keep_the_node_from_starting(
    rundir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = (*FakeDriver.capabilities.port_kinds, PortKind.SYSTEM)
    more = FakeDriver.capabilities.model_copy(update={"port_kinds": kinds})
    monkeypatch.setattr(FakeDriver, "capabilities", more)
    interfaces = {"cni0"}

    def index_of(name: str) -> int:
        if name not in interfaces:
            raise OSError(f"no interface {name}")
        return 1

    monkeypatch.setattr(outer_ports, "if_nametoindex", index_of)
    world = World(rundir / "world.json")
    node = make_node(rundir, world)
    await node.start()
    port = {"name": "pod0", "kind": "system", "options": {"iface": "cni0"}}
    await node.outer.attach(PortConfig.model_validate(port), "a")
    assert "cni0" in world.read()["ports"]
    assert await node.outer.missing() == set()
    await node.close()

    interfaces.clear()
    (rundir / "world.json").unlink()
    node = make_node(rundir, world, adopts=False)
    await node.start()
    assert "cni0" not in world.read()["ports"]
    assert await node.outer.missing() == set()
    await node.outer.detach("pod0", "a")
    await node.close()
