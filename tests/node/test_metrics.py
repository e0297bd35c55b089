# SPDX-License-Identifier: Apache-2.0
"""The metrics of a node, of each part of it, and that the dashboard shows what there is."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from headrace.engines.base import EngineError
from headrace.node.access.users import User, hash_of
from headrace.node.planning.replicas import Replicas
from headrace.node.scaling import VnfLoad
from headrace.switches.base import RuleStatistics
from tests.node import graphs
from tests.node.api import Api, api_of
from tests.node.crashing import FIRST

DASHBOARD = Path(__file__).resolve().parents[2] / "setup" / "grafana" / "headrace-node.json"
_NAME = re.compile(r"\bheadrace_[a-z_]+")
_SELECTOR = re.compile(r"(headrace_[a-z_]+)\{([^}]*)\}")
_LABEL = re.compile(r"([a-z_]+)\s*(?:=~|!~|!=|=)")
_LEGEND = re.compile(r"\{\{([a-z_]+)\}\}")

Samples = dict[str, list[tuple[dict[str, str], float]]]


async def counting(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gives the fake switch and engine counters for each rule and port."""

    async def rules(lsi: str) -> list[RuleStatistics]:
        plans = api.node.graphs.holdings.plans().values()
        found = [rule for plan in plans for rule in plan.rules() if rule.lsi == lsi]
        return [RuleStatistics(cookie=rule.cookie, packets=7, bytes=700) for rule in found]

    async def counters(_: object) -> dict[str, Any]:
        return {"ports": {"port:0": {"rx_packets": 5, "tx_packets": 6, "link": "up"}}}

    monkeypatch.setattr(api.node.driver, "rule_statistics", rules)
    monkeypatch.setattr(api.node.engines["process"], "counters", counters)


async def scraped(api: Api, token: str | None = None) -> Samples:
    headers = {"x-auth-token": token} if token else {}
    answer = await api.http.get("/metrics", headers=headers)
    assert answer.status_code == 200
    samples: Samples = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return samples


async def test_every_part_has_metrics(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    await counting(api, monkeypatch)
    assert (await api("PUT", "/NF-FG/g", FIRST)).status_code == 201
    found = await scraped(api)
    ((info, one),) = found["headrace_node_info"]
    assert (info["name"], info["switch"], one) == ("headrace", "fake", 1)
    memory = {labels["state"]: value for labels, value in found["headrace_node_memory_bytes"]}
    assert memory == {"used": (256 + 64) << 20, "free": (512 - 256 - 64) << 20}
    assert ({"core": "1"}, 3) in found["headrace_switch_packets_total"]
    assert ({"core": "1", "kind": "busy"}, 1) in found["headrace_switch_cycles_total"]
    assert ({"graph": "g", "rule": "r0"}, 7) in found["headrace_rule_packets_total"]
    assert ({"graph": "g", "rule": "r3"}, 700) in found["headrace_rule_bytes_total"]
    vnf = {"graph": "g", "vnf": "v0"}
    assert found["headrace_vnf_up"] == [({**vnf, "template": "pass", "engine": "process"}, 1)]
    port = {**vnf, "port": "port:0", "direction": "tx"}
    assert (port, 6) in found["headrace_vnf_packets_total"]
    assert ({**vnf, "kind": "idle"}, 2) in found["headrace_vnf_cycles_total"]
    assert ({"graph": "g", "status": "complete"}, 1) in found["headrace_graph_status"]
    assert ({"status": "complete"}, 1) in found["headrace_graphs"]


async def test_a_vnf_that_does_not_answer_is_left_out(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await api("PUT", "/NF-FG/g", FIRST)

    async def silent(_: object) -> None:
        raise EngineError("it does not answer")

    monkeypatch.setattr(api.node.engines["process"], "cycles", silent)
    found = await scraped(api)
    assert "headrace_vnf_cycles_total" not in found and "headrace_vnf_up" in found


async def test_what_a_user_may_not_read_is_left_out(
    rundir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async for api in api_of(rundir, rest={"login": True}):
        await counting(api, monkeypatch)
        hashed = hash_of("the password")
        tokens = {}
        for name, group in (("ann", "one"), ("eve", "two"), ("root", "admin")):
            if group not in api.node.users.groups():
                api.node.users.add_group(group)
            api.node.users.add(User(name, group), hashed)
            tokens[name] = api.node.users.give_token(name)
        headers = {"x-auth-token": tokens["ann"]}
        put = await api.http.put("/NF-FG/g", json=graphs.port_to_port(), headers=headers)
        assert put.status_code == 201
        for name, seen in (("ann", True), ("root", True), ("eve", False)):
            found = await scraped(api, tokens[name])
            assert ("headrace_rule_packets_total" in found) is seen, name
            assert "headrace_switch_up" in found
            answer = await api.http.get(
                "/NF-FG/g/statistics", headers={"x-auth-token": tokens[name]}
            )
            assert answer.status_code == (200 if seen else 403)
        ((ids, _), *_) = (await scraped(api, tokens["ann"]))["headrace_rule_packets_total"]
        assert ids["graph"] == "g"


async def test_the_dashboard_shows_metrics_that_exist(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    await counting(api, monkeypatch)
    await api("PUT", "/NF-FG/g", FIRST)
    scaled = [(api.node.graphs.record("g"), "v0", Replicas(serving=2), VnfLoad(load=0.5, ups=1))]
    monkeypatch.setattr(api.node.scaler, "loads", lambda: scaled)
    found = await scraped(api)
    assert ({"graph": "g", "vnf": "v0", "state": "serving"}, 2) in found["headrace_vnf_replicas"]
    labels = {name: set().union(*(s[0] for s in samples)) for name, samples in found.items()}
    dashboard = json.loads(DASHBOARD.read_text())
    shown: set[str] = set()
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            expression = target["expr"]
            names = set(_NAME.findall(expression))
            assert names and names <= set(labels), (panel["title"], names - set(labels))
            shown |= names
            # Prometheus itself adds `instance`.
            for name, selector in _SELECTOR.findall(expression):
                used = set(_LABEL.findall(selector))
                assert used <= labels[name] | {"instance"}, (panel["title"], used)
            legend = set(_LEGEND.findall(target["legendFormat"]))
            known = set().union(*(labels[name] for name in names)) | {"instance"}
            assert legend <= known, (panel["title"], legend - known)
    assert shown == {name for name in labels if name.startswith("headrace_")}
    for variable in dashboard["templating"]["list"]:
        for name in _NAME.findall(variable.get("definition", "")):
            assert name in labels
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids)


async def test_statistics_of_a_switch_that_counts_no_rules(api: Api) -> None:
    await api("PUT", "/NF-FG/g", FIRST)
    found = (await api("GET", "/NF-FG/g/statistics")).json()
    assert found["rules"][0] == {"id": "r0", "packets": None, "bytes": None}
    assert found["end-points"][0]["received"] == {"packets": None, "bytes": None}
    assert (await api("GET", "/NF-FG/none/statistics")).status_code == 404
