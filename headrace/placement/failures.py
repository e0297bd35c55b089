# SPDX-License-Identifier: Apache-2.0
"""When a server fails: where what it had goes, and whether there is room for it.

`replace_failed` re-places the failed servers' VNFs; VNFs elsewhere stay: a chain that was there as
a whole is placed anew, of another only its runs there.

`backups` asks the same for each server in turn, on a copy, and opens spare servers until each has
an answer. A spare is empty: one that is at least as large as any other takes what any one had, and
of N servers it costs one, as an even reserve on all would.
"""

from dataclasses import dataclass, field

import numpy as np

from headrace.placement import search
from headrace.placement.problem import Bools, Floats, Ints, Problem
from headrace.placement.state import State, shares


@dataclass
class Replaced:
    """What a failure moved: by chain, its servers after it; chains that found no place.

    `moved` counts VNFs.
    """

    servers: dict[int, list[int]] = field(default_factory=dict)
    unplaced: list[int] = field(default_factory=list)
    moved: int = 0


def chains_on(state: State, server: int) -> list[int]:
    """The chains with a VNF on a server, in order."""
    return sorted({int(c) for c in state.problem.chain_of[np.flatnonzero(state.where == server)]})


def _size(state: State, chain: int, scale: Floats) -> float:
    problem = state.problem
    first, last = int(problem.first[chain]), int(problem.first[chain + 1])
    return float((state.needs(chain, first, last)[0] * scale[0]).sum())


def _repaired(
    state: State, chain: int, servers: list[int], lost: set[int], among: Bools | None
) -> list[int] | None:
    """The chain with its lost VNFs elsewhere; the others stay where they are."""
    problem = state.problem
    choose = search.tight_fit(shares(problem))
    first = int(problem.first[chain])
    kept = {
        vnf: server
        for vnf, server in zip(problem.vnfs(chain), servers, strict=True)
        if server not in lost
    }
    if not kept:
        return search.whole(state, chain, choose, among) or search.cut(state, chain, choose, among)
    if problem.modes[chain] == "gather":
        return search.whole(state, chain, choose, among)
    # The runs that stay take their part; each lost run then looks for a server for itself.
    undo: list[tuple[int, Ints]] = []
    beside = dict(kept)
    try:
        for server, start, end in state.runs(chain, servers):
            if server not in lost:
                undo.append((server, state.needs(chain, start, end)[problem.type_of[server]]))
                state.free[server] -= undo[-1][1]
        at, end_of_chain = first, first + len(servers)
        while at < end_of_chain:
            if at in beside:
                at += 1
                continue
            limit = search.longest_run(state, chain, at)
            limit = min([limit, *(vnf for vnf in kept if vnf > at)])
            run = search.place_run(state, chain, at, limit, choose, among, beside)
            if run is None:
                return None
            server, last, taken = run
            state.free[server] -= taken
            undo.append((server, taken))
            beside.update(dict.fromkeys(range(at, last), server))
            at = last
    finally:
        for server, taken in undo:
            state.free[server] += taken
    found = [beside[vnf] for vnf in problem.vnfs(chain)]
    return found if state.fits(chain, found) else None


def replace_failed(state: State, failed: set[int], among: Bools | None = None) -> Replaced:
    """Re-places in `state` what the failed servers have; they are `down` afterwards.

    Largest chains first. One that can't keep its other VNFs is placed anew as a whole; one that
    finds no place at all is taken out and named.
    """
    problem = state.problem
    scale = shares(problem)
    chains = sorted({chain for server in failed for chain in chains_on(state, server)})
    before = {chain: state.remove(chain) for chain in chains}
    for server in failed:
        state.down[server] = True
    found = Replaced()
    choose = search.tight_fit(scale)
    ordered = sorted(chains, key=lambda chain: -_size(state, chain, scale))
    # What stays on its servers is kept for its chains while others look for a place.
    partly = {chain for chain in ordered if set(before[chain]) - failed}
    for chain in sorted(ordered, key=lambda chain: chain not in partly):
        servers = _repaired(state, chain, before[chain], failed, among)
        if servers is None and chain in partly:
            servers = search.whole(state, chain, choose, among)
            servers = servers or search.cut(state, chain, choose, among)
        if servers is None:
            found.unplaced.append(chain)
            continue
        state.put(chain, servers)
        found.servers[chain] = servers
        found.moved += sum(a != b for a, b in zip(servers, before[chain], strict=True))
    return found


@dataclass(frozen=True)
class Backups:
    """For each used server, the chains' servers after its failure; the spares that it needs.

    `unprotected` are servers whose failure would leave chains without a place.
    """

    after: dict[int, dict[int, list[int]]]
    spares: list[int]
    unprotected: list[int]


def backups(state: State) -> Backups:
    """Where the VNFs of each used server go if it fails, with as few spare servers as found."""
    problem = state.problem
    spares: list[int] = []
    after: dict[int, dict[int, list[int]]] = {}
    unprotected: list[int] = []
    among = state.used.copy()
    # The largest servers first: a spare that serves them serves the others.
    used = np.flatnonzero(state.used)
    taken = ((problem.capacity - state.free) * shares(problem)).max(axis=1)
    for server in used[np.argsort(-taken[used], kind="stable")]:
        while True:
            trial = state.copy()
            found = replace_failed(trial, {int(server)}, among)
            if not found.unplaced:
                after[int(server)] = found.servers
                break
            spare = _spare(problem, int(server), among | state.down)
            if spare is None:
                unprotected.append(int(server))
                break
            spares.append(spare)
            among[spare] = True
    needed = {s for moved in after.values() for servers in moved.values() for s in servers}
    return Backups(after, [spare for spare in spares if spare in needed], unprotected)


def _spare(problem: Problem, server: int, taken: Bools) -> int | None:
    """An unused server that is as large as this one, the cheapest; else the largest; or None."""
    free = np.flatnonzero(~taken)
    if not len(free):
        return None
    dominates = (problem.capacity[free] >= problem.capacity[server]).all(axis=1)
    price = problem.price[problem.type_of[free]]
    if dominates.any():
        return int(free[np.where(dominates, price, np.inf).argmin()])
    size = (problem.capacity[free] / np.maximum(1, problem.capacity.max(axis=0))).sum(axis=1)
    return int(free[size.argmax()])
