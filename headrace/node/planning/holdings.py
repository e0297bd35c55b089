# SPDX-License-Identifier: Apache-2.0
"""What the graphs of a node hold, indexed by what planning asks for.

A plan enters when its graph is noted and leaves when the graph is forgotten, so a question costs
what its answer has, not what the node has: who uses a port, which rules may meet a rule, which
claims are on a port. `Others` is the same without one graph, the one that is planned.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from headrace.engines.base import VnfSpec
from headrace.node.planning.resources import Claim, HostInterfaceResource, Plan
from headrace.switches.fields import FIELDS
from headrace.switches.rules import Rule

Place = tuple[str, str, int | None]
"""Where a rule matches: its LSI, its port, and the VLAN tag if all its packets have the same."""


def place_of(rule: Rule) -> Place:
    """The place under which a rule is found."""
    vlan = rule.match.get("vlan_vid")
    exact = vlan is not None and vlan.mask == FIELDS["vlan_vid"].ones
    return rule.lsi, rule.in_port, vlan.value if vlan is not None and exact else None


@dataclass
class _Held:
    """What one graph holds."""

    plan: Plan
    vnfs: list[VnfSpec]
    hosts: list[HostInterfaceResource]
    groups: dict[str, str]
    rules: dict[Place, list[Rule]] = field(default_factory=lambda: defaultdict(list))
    ports: set[tuple[str, str]] = field(default_factory=set)


class Holdings:
    """The plans of all graphs; belongs to the node's event loop."""

    def __init__(self) -> None:
        self.changes = 0
        """How often what is held has changed: two plans with the same number saw the same."""
        self._held: dict[str, _Held] = {}
        self._with_vnfs: dict[str, list[VnfSpec]] = {}
        self._with_hosts: dict[str, list[HostInterfaceResource]] = {}
        self._with_groups: dict[str, dict[str, str]] = {}
        self._claims: defaultdict[str, dict[str, list[Claim]]] = defaultdict(dict)
        self._rules: defaultdict[tuple[str, str], dict[int | None, dict[str, list[Rule]]]] = (
            defaultdict(dict)
        )
        self._users: defaultdict[tuple[str, str], dict[str, None]] = defaultdict(dict)

    @classmethod
    def of(cls, plans: Mapping[str, Plan]) -> "Holdings":
        """The holdings of these graphs."""
        self = cls()
        for graph_id, plan in plans.items():
            self.put(graph_id, plan)
        return self

    def put(self, graph_id: str, plan: Plan) -> None:
        """Notes what a graph holds from now on."""
        if graph_id in self._held:
            if self._held[graph_id].plan is plan:
                return
            self.drop(graph_id)
        self.changes += 1
        held = _Held(plan, plan.vnfs(), plan.host_interfaces(), plan.groups())
        self._held[graph_id] = held
        for rule in plan.rules():
            held.rules[place_of(rule)].append(rule)
            held.ports |= {(rule.lsi, port) for port in (rule.in_port, *rule.outputs)}
        if held.vnfs:
            self._with_vnfs[graph_id] = held.vnfs
        if held.hosts:
            self._with_hosts[graph_id] = held.hosts
        if held.groups:
            self._with_groups[graph_id] = held.groups
        for claim in plan.claims:
            self._claims[claim.port].setdefault(graph_id, []).append(claim)
        for (lsi, port, tag), rules in held.rules.items():
            self._rules[lsi, port].setdefault(tag, {})[graph_id] = rules
        for used in held.ports:
            self._users[used][graph_id] = None

    def drop(self, graph_id: str) -> None:
        """Forgets a graph, if it is known."""
        held = self._held.pop(graph_id, None)
        if held is None:
            return
        self.changes += 1
        for table in (self._with_vnfs, self._with_hosts, self._with_groups):
            table.pop(graph_id, None)
        for claim in held.plan.claims:
            self._claims[claim.port].pop(graph_id, None)
            if not self._claims[claim.port]:
                del self._claims[claim.port]
        for lsi, port, tag in held.rules:
            by_tag = self._rules[lsi, port]
            by_tag[tag].pop(graph_id)
            if not by_tag[tag]:
                del by_tag[tag]
            if not by_tag:
                del self._rules[lsi, port]
        for used in held.ports:
            self._users[used].pop(graph_id)
            if not self._users[used]:
                del self._users[used]

    def plans(self) -> dict[str, Plan]:
        """The plan of each graph."""
        return {graph_id: held.plan for graph_id, held in self._held.items()}

    def vnfs(self) -> list[VnfSpec]:
        """The VNFs of all graphs."""
        return [vnf for vnfs in self._with_vnfs.values() for vnf in vnfs]

    def users(self, lsi: str, port: str) -> list[str]:
        """The graphs with a rule that takes from a port or sends to it."""
        return list(self._users.get((lsi, port), ()))

    def without(self, graph_id: str) -> "Others":
        """The same for all graphs but one."""
        return Others(self, graph_id)


class Others:
    """What all graphs but one hold."""

    def __init__(self, holdings: Holdings, graph_id: str) -> None:
        self._all, self._graph_id = holdings, graph_id

    def vnfs(self) -> list[VnfSpec]:
        """Their VNFs."""
        found = self._all._with_vnfs.items()
        return [vnf for graph, vnfs in found if graph != self._graph_id for vnf in vnfs]

    def host_interfaces(self) -> Iterator[tuple[str, HostInterfaceResource]]:
        """Their interfaces in the host's IP stack, with the graphs' ids."""
        for graph, hosts in self._all._with_hosts.items():
            if graph != self._graph_id:
                yield from ((graph, host) for host in hosts)

    def groups(self) -> dict[str, str]:
        """The LSIs of their internal groups."""
        found: dict[str, str] = {}
        for graph, groups in self._all._with_groups.items():
            if graph != self._graph_id:
                found.update(groups)
        return found

    def members(self) -> Iterator[tuple[str, dict[str, str]]]:
        """Who is in which internal groups: ids of graphs, groups with their LSIs."""
        for graph, groups in self._all._with_groups.items():
            if graph != self._graph_id:
                yield graph, groups

    def claims(self, port: str) -> Iterator[tuple[str, Claim]]:
        """Their claims on a port, with the graphs' ids."""
        for graph, claims in self._all._claims.get(port, {}).items():
            if graph != self._graph_id:
                yield from ((graph, claim) for claim in claims)

    def rules_that_may_meet(self, rule: Rule) -> Iterator[Rule]:
        """Their rules on the port of `rule`, without those that have another VLAN tag."""
        lsi, port, tag = place_of(rule)
        by_tag = self._all._rules.get((lsi, port), {})
        tags: Iterable[int | None] = list(by_tag) if tag is None else (tag, None)
        for one in tags:
            for graph, rules in by_tag.get(one, {}).items():
                if graph != self._graph_id:
                    yield from rules
