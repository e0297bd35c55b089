# SPDX-License-Identifier: Apache-2.0
"""Whether a plan keeps every constraint of its document, computed from the document itself.

This shares no code with the search: no arrays, no rounding, no incremental sums. `headrace place`
runs it over each plan before it prints it, and the property tests over each plan of theirs.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from headrace.placement.document import Chain, Document, Server

Assignment = Mapping[str, Sequence[str]]
"""By chain, the server of each of its VNFs; chains without a place are missing."""

SLACK = 1e-6
"""Share by which sums of floating point numbers may exceed a capacity."""


def runs_of(servers: Sequence[str]) -> list[tuple[str, list[int]]]:
    """Maximal sequences of VNFs on one server: (server, numbers of the VNFs)."""
    found: list[tuple[str, list[int]]] = []
    for number, server in enumerate(servers):
        if found and found[-1][0] == server:
            found[-1][1].append(number)
        else:
            found.append((server, [number]))
    return found


class Checker:
    """Checks assignments for one document."""

    def __init__(self, document: Document) -> None:
        """Expands the document once."""
        self.document = document
        self.servers: dict[str, Server] = {one.name: one for one in document.all_servers()}
        self.chains: dict[str, Chain] = {one.name: one for one in document.all_chains()}

    def violations(
        self, assignment: Assignment, down: Iterable[str] = (), only: Iterable[str] | None = None
    ) -> list[str]:
        """What an assignment violates, one sentence each.

        Args:
            assignment: the plan.
            down: servers that must have nothing.
            only: servers on which all of it has to be.
        """
        found: list[str] = []
        failed, usable = set(down), None if only is None else set(only)
        for name, servers in assignment.items():
            if name not in self.chains:
                found.append(f"there is no chain {name}")
                continue
            if len(servers) != len(self.chains[name].vnfs):
                found.append(
                    f"{name}: {len(servers)} servers for {len(self.chains[name].vnfs)} VNFs"
                )
                continue
            for server in servers:
                if server not in self.servers:
                    found.append(f"{name}: there is no server {server}")
                elif server in failed:
                    found.append(f"{name}: on {server}, which is down")
                elif usable is not None and server not in usable:
                    found.append(f"{name}: on {server}, which the plan does not use")
        if found:
            return found
        for name, servers in assignment.items():
            found += self._chain(self.chains[name], servers)
        return found + self._apart(assignment) + self._capacities(assignment)

    def _chain(self, chain: Chain, servers: Sequence[str]) -> list[str]:
        found: list[str] = []
        different = len(set(servers))
        if chain.placement == "gather" and different > 1:
            found.append(f"{chain.name}: gathered, but on {different} servers")
        if chain.placement == "distribute" and different < len(servers):
            found.append(f"{chain.name}: distributed, but two VNFs share a server")
        if chain.servers:
            for name in servers:
                server = self.servers[name]
                if not {name, server.type, server.rack} & set(chain.servers):
                    found.append(f"{chain.name}: on {name}, which it may not use")
        for group in chain.apart:
            if len({servers[number] for number in group}) < len(group):
                found.append(f"{chain.name}: VNFs {group} share a server")
        if chain.latency_us is not None:
            took = self.latency_us(chain, servers)
            if took > chain.latency_us * (1 + SLACK) + 0.01:
                found.append(f"{chain.name}: {took:.1f} us, {chain.latency_us:g} are allowed")
        return found

    def latency_us(self, chain: Chain, servers: Sequence[str]) -> float:
        """What a chain takes: VNFs, a hop for each visit and entry, ways between servers."""
        document = self.document
        total = sum(document.functions[name].latency_us for name in chain.vnfs)
        runs = runs_of(servers)
        for server, vnfs in runs:
            total += (len(vnfs) + 1) * document.types[self.servers[server].type].hop_us
        return total + (len(runs) - 1) * document.network_us

    def _apart(self, assignment: Assignment) -> list[str]:
        found = []
        for rule in self.document.apart:
            seen: dict[str, str] = {}
            for vnf in rule.vnfs:
                name, _, number = vnf.rpartition("/")
                if name not in assignment:
                    continue
                server = self.servers[assignment[name][int(number)]]
                where = server.rack if rule.domain == "rack" else server.name
                if where in seen:
                    found.append(f"{vnf} and {seen[where]} share {rule.domain} {where}")
                seen[where] = vnf
        return found

    def _capacities(self, assignment: Assignment) -> list[str]:
        document = self.document
        used: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
        for name, servers in assignment.items():
            chain = self.chains[name]
            pps = 1000 * chain.kpps
            for server, vnfs in runs_of(servers):
                kind = document.types[self.servers[server].type]
                of, cycles = used[server], kind.cycles
                of["link_gbps"] += pps * chain.bytes * 8 / 1e9
                of["switch cycles/s"] += pps * (cycles.entry + cycles.per_byte * chain.bytes)
                for number in vnfs:
                    function = document.functions[chain.vnfs[number]]
                    of["cores"] += function.cores + pps * function.cycles / (kind.ghz * 1e9)
                    of["memory_mb"] += function.memory_mb
                    visit = cycles.visit[function.port] + cycles.per_byte * chain.bytes
                    of["switch cycles/s"] += pps * visit
        found = []
        for server, of in used.items():
            kind = document.types[self.servers[server].type]
            limits = {
                "cores": kind.cores,
                "memory_mb": kind.memory_mb,
                "link_gbps": kind.link_gbps,
                "switch cycles/s": kind.switch_cores * kind.ghz * 1e9 * kind.max_load,
            }
            for what, limit in limits.items():
                if of[what] > limit * (1 + SLACK):
                    found.append(f"{server}: {of[what]:.6g} {what} of {limit:.6g}")
        return found

    def failures(
        self,
        assignment: Assignment,
        after: Mapping[str, Assignment],
        spares: Iterable[str],
        unprotected: Iterable[str] = (),
    ) -> list[str]:
        """What the answers to the failure of each used server violate.

        Args:
            assignment: the plan.
            after: by failed server, the chains that move and their servers then.
            spares: servers that the plan keeps besides.
            unprotected: servers that the plan says have no answer.
        """
        found = []
        used = {server for servers in assignment.values() for server in servers}
        powered = used | set(spares)
        for server in sorted(used - set(unprotected)):
            hit = {name for name, servers in assignment.items() if server in servers}
            moved = after.get(server)
            if moved is None or set(moved) != hit:
                found.append(f"failure of {server}: no place for all chains that it has")
                continue
            then = {**assignment, **moved}
            for line in self.violations(then, down=[server], only=powered):
                found.append(f"failure of {server}: {line}")
        return found
