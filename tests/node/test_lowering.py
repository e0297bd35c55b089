# SPDX-License-Identifier: Apache-2.0
"""Lowered rules do what the graph says: compared, packet by packet, with a reading of the document.

`Meaning` walks the client's document; `Fabric` runs packets through the lowered rules of LSI-0 and
the graph's LSI, following links. Both are small and know nothing of each other.
"""

import copy
from collections import Counter
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.node.errors import GraphRefused
from headrace.node.planning.lowering import assign_links
from headrace.node.planning.nffg import parse
from headrace.node.planning.plan import make_plan
from headrace.node.planning.resources import EMPTY_PLAN, LinkResource, Plan
from headrace.switches.rules import Output, PopVlan, PushVlan, Rule, SetField
from tests.node import graphs
from tests.node.graphs import out, rule
from tests.node.surroundings import surroundings

MACS = [f"02:00:00:00:00:0{n}" for n in range(3)]
TAGS = [31, 32]


def plan_of(
    document: graphs.Json, previous: Plan = EMPTY_PLAN, others: dict[str, Plan] | None = None
) -> Plan:
    graph, _ = parse(document)
    return make_plan(graph, "g", 1, surroundings(others), previous)


@dataclass(frozen=True)
class Packet:
    """A frame as the rules see it: destination MAC, source MAC, tags outermost first."""

    eth_dst: int
    eth_src: int = 1
    tags: tuple[int, ...] = ()


def mac(text: str) -> int:
    return int(text.replace(":", ""), 16)


class Fabric:
    """LSIs with rules, joined by links; OpenFlow's semantics for what the tests use."""

    def __init__(self, plan: Plan) -> None:
        self._rules = sorted(plan.rules(), key=lambda r: -r.priority)
        self._peer: dict[str, tuple[str, str]] = {}
        for resource in plan.resources:
            if isinstance(resource, LinkResource):
                link = resource.link
                if link.first != "hr-0":
                    continue  # to an internal group, whose other members nobody knows here
                self._peer[link.first_port] = (link.second, link.second_port)
                self._peer[link.second_port] = (link.first, link.first_port)

    def send(
        self, lsi: str, port: str, packet: Packet, depth: int = 0
    ) -> Counter[tuple[str, Packet]]:
        """Where a packet that enters at a port comes out, and as what."""
        assert depth < 4, "a loop between LSIs"
        result: Counter[tuple[str, Packet]] = Counter()
        for candidate in self._rules:
            if candidate.lsi == lsi and candidate.in_port == port and self._fits(candidate, packet):
                for target, changed in self._apply(candidate, packet):
                    if target in self._peer:
                        result += self.send(*self._peer[target], changed, depth + 1)
                    else:
                        result[target, changed] += 1
                break
        return result

    @staticmethod
    def _fits(candidate: Rule, packet: Packet) -> bool:
        vid = packet.tags[0] | 0x1000 if packet.tags else 0
        have = {"eth_dst": packet.eth_dst, "eth_src": packet.eth_src, "vlan_vid": vid}
        return all(
            (have[name] ^ wanted.value) & wanted.mask == 0
            for name, wanted in candidate.match.items()
        )

    @staticmethod
    def _apply(candidate: Rule, packet: Packet) -> list[tuple[str, Packet]]:
        sent = []
        for action in candidate.actions:
            match action:
                case Output():
                    sent.append((action.port, packet))
                case PushVlan():
                    packet = replace(packet, tags=(action.vlan_id, *packet.tags))
                case PopVlan():
                    packet = replace(packet, tags=packet.tags[1:])
                case SetField(field="vlan_vid"):
                    packet = replace(packet, tags=(action.value & 0xFFF, *packet.tags[1:]))
                case SetField(field="eth_dst"):
                    packet = replace(packet, eth_dst=action.value)
                case SetField(field="eth_src"):
                    packet = replace(packet, eth_src=action.value)
                case _:
                    raise AssertionError(action)
        return sent


class Meaning:
    """What the document says, by the words of the API."""

    def __init__(self, document: graphs.Json) -> None:
        content = document["forwarding-graph"]
        self._points = {point["id"]: point for point in content["end-points"]}
        self._rules = sorted(content["big-switch"]["flow-rules"], key=lambda r: -r["priority"])
        self._trusted = {
            f"vnf:{vnf['id']}:{port['id']}": mac(port["mac"])
            for vnf in content["VNFs"]
            for port in vnf["ports"]
            if port.get("trusted")
        }

    def send(self, reference: str, packet: Packet) -> Counter[tuple[str, Packet]]:
        """Where a packet that enters the graph at a port comes out, and as what."""
        for candidate in self._rules:
            if candidate["match"]["port_in"] == reference and self._fits(candidate, packet):
                return self._apply(candidate, reference, packet)
        return Counter()

    def _fits(self, candidate: graphs.Json, packet: Packet) -> bool:
        wanted = candidate["match"]
        if "dest_mac" in wanted and mac(wanted["dest_mac"]) != packet.eth_dst:
            return False
        if wanted.get("vlan_id") == "NO_VLAN":
            return not packet.tags
        if wanted.get("vlan_id") == "ANY":
            return bool(packet.tags)
        return "vlan_id" not in wanted or packet.tags[:1] == (int(wanted["vlan_id"]),)

    def _apply(
        self, candidate: graphs.Json, reference: str, packet: Packet
    ) -> Counter[tuple[str, Packet]]:
        targets = []
        if reference in self._trusted:
            packet = replace(packet, eth_src=self._trusted[reference])
        for action in candidate["actions"]:
            ((key, value),) = action.items()
            if key == "push_vlan":
                packet = replace(packet, tags=(int(value), *packet.tags))
            elif key == "pop_vlan":
                packet = replace(packet, tags=packet.tags[1:])
            elif key == "set_vlan_id":
                packet = replace(packet, tags=(int(value), *packet.tags[1:]))
            elif key == "set_ethernet_dst_address":
                packet = replace(packet, eth_dst=mac(value))
            elif key == "output_to_port":
                targets.append(value)
        result: Counter[tuple[str, Packet]] = Counter()
        for target in targets:
            result[self._physical(target, packet)] += 1
        return result

    def _physical(self, target: str, packet: Packet) -> tuple[str, Packet]:
        if target.startswith("vnf:"):
            return target, packet
        point = self._points[target.removeprefix("endpoint:")]
        if "internal" in point:
            return target, packet
        if "vlan" in point:
            tag = int(point["vlan"]["vlan-id"])
            return point["vlan"]["if-name"], replace(packet, tags=(tag, *packet.tags))
        return point["interface"]["if-name"], packet


POINTS = ["endpoint:in", "endpoint:out", "endpoint:office", "endpoint:lab", "endpoint:group"]
VNF_PORTS = [f"vnf:v{v}:port:{p}" for v in range(2) for p in range(2)]


@st.composite
def rules(draw: st.DrawFn, number: int) -> graphs.Json:
    source = draw(st.sampled_from(POINTS + VNF_PORTS))
    match: dict[str, str] = {"port_in": source}
    if draw(st.booleans()):
        match["dest_mac"] = draw(st.sampled_from(MACS))
    tagged = False
    if source not in ("endpoint:office", "endpoint:lab") and draw(st.booleans()):
        match["vlan_id"] = draw(st.sampled_from(["NO_VLAN", "ANY", *map(str, TAGS)]))
        tagged = match["vlan_id"] != "NO_VLAN"
    actions: list[graphs.Json] = []
    if draw(st.booleans()):
        actions.append({"set_ethernet_dst_address": draw(st.sampled_from(MACS))})
    if tagged and draw(st.booleans()):
        actions.append(draw(st.sampled_from([{"pop_vlan": True}, {"set_vlan_id": "33"}])))
    if draw(st.booleans()):
        actions.append({"push_vlan": str(draw(st.sampled_from(TAGS)))})
    # A port never outputs to itself here: OpenFlow treats that apart (see the driver's IN_PORT).
    others = [port for port in POINTS + VNF_PORTS if port != source]
    targets = draw(st.lists(st.sampled_from(others), min_size=0, max_size=3, unique=True))
    actions += [out(target) for target in targets] or [{"drop": True}]
    if targets:
        actions = draw(st.permutations(actions)) if len(actions) == len(targets) else actions
    return rule(f"r{number}", match, *actions, priority=number)


@st.composite
def documents(draw: st.DrawFn) -> graphs.Json:
    flow_rules = [draw(rules(number)) for number in range(1, draw(st.integers(1, 8)) + 1)]
    vnfs = [graphs.vnf(f"v{number}", "pass") for number in range(2)]
    if draw(st.booleans()):
        vnfs[0]["ports"][0] |= {"mac": "02:00:00:00:00:77", "trusted": True}
    return graphs.document(
        [
            graphs.interface("in", "p0"),
            graphs.interface("out", "p1"),
            graphs.vlan("office", "p0", TAGS[0]),
            graphs.vlan("lab", "p1", TAGS[1]),
            graphs.internal("group", "5"),
        ],
        flow_rules,
        vnfs,
    )


packets = st.builds(
    Packet,
    eth_dst=st.sampled_from([mac(text) for text in MACS]),
    tags=st.lists(st.sampled_from([*TAGS, 40]), max_size=2).map(tuple),
)


@settings(max_examples=300, deadline=None)
@given(documents(), packets)
def test_lowered_rules_mean_what_the_graph_says(document: graphs.Json, packet: Packet) -> None:
    plan = plan_of(document)
    fabric, meaning = Fabric(plan), Meaning(document)
    names = {
        reference: name
        for identity, name in plan.port_names.items()
        for reference in [identity.split(" ", 1)[1]]
    }
    named = {**{name: ref for ref, name in names.items()}, "p0": "p0", "p1": "p1"}
    for reference, name in names.items():
        expected = meaning.send(reference, packet)
        got = fabric.send("hr-1", name, packet)
        assert Counter({(named[port], p): n for (port, p), n in got.items()}) == expected
    for port, untagged, tagged, tag in (
        ("p0", "endpoint:in", "endpoint:office", TAGS[0]),
        ("p1", "endpoint:out", "endpoint:lab", TAGS[1]),
    ):
        # A packet of the tag belongs to both end-points of the port: priorities decide.
        inner = replace(packet, tags=packet.tags[1:])
        candidates = []
        content = document["forwarding-graph"]["big-switch"]["flow-rules"]
        for entry in sorted(content, key=lambda r: -r["priority"]):
            source = entry["match"]["port_in"]
            if source == untagged and meaning._fits(entry, packet):
                candidates.append((untagged, entry, packet))
            if source == tagged and packet.tags[:1] == (tag,) and meaning._fits(entry, inner):
                candidates.append((tagged, entry, inner))
        expected = Counter()
        if candidates:
            source, entry, seen = candidates[0]
            expected = meaning._apply(entry, source, seen)
        got = fabric.send("hr-0", port, packet)
        assert Counter({(named[name], p): n for (name, p), n in got.items()}) == expected


@settings(max_examples=100, deadline=None)
@given(documents(), documents())
def test_an_update_keeps_links_and_ports(first: graphs.Json, second: graphs.Json) -> None:
    before = plan_of(first)
    after = plan_of(second, before)
    assert after.port_names == before.port_names  # same VNFs in both
    kept = {use.number: use for use in before.links}
    for use in after.links:
        old = kept.get(use.number)
        for mine, theirs in ((use.up, old and old.up), (use.down, old and old.down)):
            needed = [other.up for other in after.links] + [other.down for other in after.links]
            if theirs is not None and theirs in needed:
                assert mine == theirs, "a link that is still needed has changed its use"
    assert len({use.number for use in after.links}) == len(after.links)


@settings(max_examples=100, deadline=None)
@given(documents())
def test_as_many_links_as_destinations(document: graphs.Json) -> None:
    graph, _ = parse(document)
    links = assign_links(graph, ())
    ups = [use.up for use in links if use.up]
    downs = [use.down for use in links if use.down]
    assert len(links) == max(len(ups), len(downs), 0)
    assert len(set(ups)) == len(ups) and len(set(downs)) == len(downs)


def refused(document: graphs.Json, others: dict[str, Plan] | None = None) -> str:
    with pytest.raises(GraphRefused) as caught:
        plan_of(document, others=others)
    return str(caught.value)


def test_errors_name_the_place() -> None:
    document = graphs.port_to_port()
    flow_rules = document["forwarding-graph"]["big-switch"]["flow-rules"]
    flow_rules[1]["actions"] = [out("endpoint:nowhere")]
    assert refused(document) == (
        "big-switch.flow-rules[1].actions[0].output_to_port: there is no end-point 'nowhere'; "
        "there are: in, out"
    )
    flow_rules[1]["actions"] = [out("vnf:v0:port:0")]
    assert "there is no VNF 'v0'" in refused(document)
    flow_rules[1]["actions"] = [out("p1")]
    assert "is neither endpoint:<id> nor vnf:<id>:<label>:<n>" in refused(document)
    flow_rules[1]["actions"] = [{"push_vlan": "5"}]
    assert "big-switch.flow-rules[1]: the rule goes nowhere" in refused(document)
    flow_rules[1] = {**flow_rules[0], "id": "again"}
    assert "big-switch.flow-rules[1]: same match and priority as" in refused(document)


def test_port_in_use_by_another_graph() -> None:
    other = plan_of(graphs.shared(graphs.port_to_port()))
    text = refused(graphs.shared(graphs.port_to_port()), {"first": other})
    assert "port p0 is in use: rule g/r0 of another graph" in text
    divided = graphs.shared(graphs.port_to_port())
    for entry in divided["forwarding-graph"]["big-switch"]["flow-rules"]:
        entry["priority"] = 20
        entry["match"]["dest_mac"] = MACS[0]
    plan = plan_of(divided, others={"first": other})
    assert any("priority decides" in warning for warning in plan.warnings)
    for entry in divided["forwarding-graph"]["big-switch"]["flow-rules"]:
        entry["priority"] = 5  # below a rule that takes everything: it would never match
    assert "port p0 is in use" in refused(divided, {"first": other})


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [
        (graphs.interface("a", "p0"), graphs.interface("b", "p0"), False),
        (graphs.interface("a", "p0"), graphs.vlan("b", "p0", 5), False),
        (graphs.vlan("a", "p0", 5), graphs.vlan("b", "p0", 5), False),
        (graphs.vlan("a", "p0", 5), graphs.vlan("b", "p0", 6), True),
        (graphs.interface("a", "p0"), graphs.interface("b", "p1"), True),
    ],
)
@pytest.mark.parametrize("sharing", [0, 1, 2])
def test_a_port_is_one_graphs_unless_both_share_it(
    first: graphs.Json, second: graphs.Json, both: bool, sharing: int
) -> None:
    """A narrower rule of higher priority would take all of the first graph's traffic."""
    documents = [graphs.document([first], []), graphs.document([second], [])]
    documents = [copy.deepcopy(document) for document in documents]
    for document in documents[:sharing]:
        graphs.shared(document)
    other = plan_of(documents[0])
    if both or sharing == 2:
        plan_of(documents[1], others={"first": other})
    else:
        assert "port p0" in refused(documents[1], {"first": other})
