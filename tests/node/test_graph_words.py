# SPDX-License-Identifier: Apache-2.0
"""What graphs say in the original's words: labels of ports, unify-ip, user_data."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.engines.base import EngineError, VnfSpec
from headrace.engines.process import ProcessEngine
from headrace.machine.processes import Supervisor
from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.templates import Template, TemplateStore
from headrace.switches.base import PortKind
from tests.node.surroundings import surroundings


def planned(
    vnf: dict[str, Any], *templates: Template, kind: PortKind = PortKind.MEMIF
) -> tuple[VnfSpec, tuple[str, ...]]:
    """The VNF of a graph of it alone, and the warnings."""
    node = surroundings()
    kinds = ("process", "container:image", "vm")
    node = replace(
        node,
        capabilities=node.capabilities.model_copy(update={"vnf_kinds": (kind,)}),
        engine_kinds=dict.fromkeys(kinds, (kind,)),
    )
    if templates:
        node = replace(node, templates=TemplateStore(templates))
    graph, _ = parse({"forwarding-graph": {"VNFs": [{"id": "v", **vnf}]}})
    plan = make_plan(graph, "g", 1, node)
    (made,) = plan.vnfs()
    return made, plan.warnings


ROLES = {
    "nat": ("inside", "outside"),
    "cpe": ("inside", "outside"),
    "bng": ("access", "core"),
    "basestation": ("radio", "core"),
}


@pytest.mark.parametrize("name", ROLES)
def test_labels_of_ports_are_their_roles(name: str) -> None:
    first, second = ROLES[name]
    for ports, wanted in (
        ((f"{second}:0", f"{first}:1"), (f"{first}:1", f"{second}:0")),  # the other way round
        ((f"{first}:0", f"{second}:0"), (f"{first}:0", f"{second}:0")),  # one number
        (("USER:0", "WAN:0"), ("USER:0", "WAN:0")),  # other labels: by their places
    ):
        vnf, _ = planned({"name": name, "ports": [{"id": port} for port in ports]})
        assert (vnf.configuration[first], vnf.configuration[second]) == wanted
    asked = {first: "b:1", second: "a:0"}
    ports = ("a:0", "b:1")
    vnf, _ = planned(
        {"name": name, "ports": [{"id": port} for port in ports], "configuration": asked}
    )
    assert {key: vnf.configuration[key] for key in asked} == asked


KEYS = {
    way: {"spi": 256 + number, "suite": "aes-gcm", "key": 32 * "5", "salt": 8 * "7"}
    for number, way in enumerate(("uplink", "downlink"))
}


@pytest.mark.parametrize("name", ROLES)
async def test_a_plain_graph_will_do(tmp_path: Path, name: str) -> None:
    """By headrace-vnf's own check; for a base station with keys, which no template has."""
    try:
        find_program("headrace-vnf")
    except ProgramMissing:
        pytest.skip("headrace-vnf is not built")
    engine = ProcessEngine(tmp_path, Supervisor(tmp_path), hugepages=False)
    graph: dict[str, Any] = {"name": name, "ports": [{"id": f"{role}:0"} for role in ROLES[name]]}
    if name == "basestation":
        vnf, _ = planned(graph)
        with pytest.raises(EngineError, match="uplink"):
            await engine.check(vnf.model_copy(update={"cores": (0,)}))
        graph["configuration"] = KEYS
    vnf, _ = planned(graph)
    await engine.check(vnf.model_copy(update={"cores": (0,)}))


def template(**more: Any) -> Template:
    words = {
        "id": "web",
        "name": "web",
        "functional-capability": "web",
        "engine": "container",
        "function": "image",
        "cores": 1,
        "configuration": {"image": "/x", "addresses": {"a:0": ["10.0.0.1/24"]}},
    }
    return Template.model_validate({**words, **more})


def test_unify_ip_is_an_address() -> None:
    ports = [{"id": "a:0", "unify-ip": "10.0.0.9/24"}, {"id": "b:1", "unify-ip": "10.1.0.9/24"}]
    may = template(**{"graph-may-set": ["addresses"]})
    vnf, warnings = planned({"name": "web", "ports": ports}, may, kind=PortKind.VETH)
    addresses = {"a:0": ["10.0.0.1/24", "10.0.0.9/24"], "b:1": ["10.1.0.9/24"]}
    assert vnf.configuration["addresses"] == addresses and warnings == ()
    vnf, warnings = planned({"name": "web", "ports": ports}, template(), kind=PortKind.VETH)
    assert vnf.configuration["addresses"] == {"a:0": ["10.0.0.1/24"]}
    assert [text.split(":")[0] for text in warnings] == [
        "VNFs[0].ports[0].unify-ip",
        "VNFs[0].ports[1].unify-ip",
    ]


def test_user_data_is_for_those_who_take_it() -> None:
    ports = [{"id": "a:0"}, {"id": "b:1"}]
    words = {"engine": "vm", "function": "guest", "configuration": {"disk": "/x"}}
    for may, expected in ((["user_data"], "#cloud-config"), ([], None)):
        made = template(**words, **{"graph-may-set": may})
        asked = {"name": "web", "user_data": "#cloud-config", "ports": ports}
        vnf, warnings = planned(asked, made, kind=PortKind.VHOST_USER)
        assert vnf.configuration.get("user_data") == expected
        assert bool(warnings) is (expected is None)


def test_queues_are_the_switchs_too() -> None:
    words = {"engine": "vm", "function": "guest", "configuration": {"disk": "/x", "queues": 4}}
    vnf, _ = planned(
        {"name": "web", "ports": [{"id": "a:0"}, {"id": "b:1"}]},
        template(**words),
        kind=PortKind.VHOST_USER,
    )
    assert [port.switch_port.options["n_rxq"] for port in vnf.ports] == ["4", "4"]
