# SPDX-License-Identifier: Apache-2.0
"""Where one chain could go: servers that hold a run of its VNFs, and a chain cut into runs."""

from collections.abc import Callable

import numpy as np

from headrace.placement.problem import Bools, Floats, Ints
from headrace.placement.state import State

Choose = Callable[[State, Bools, Ints], int]
"""Picks one of the servers of a mask for a run with these needs (T x 4)."""


def candidates(
    state: State, chain: int, first: int, last: int, beside: dict[int, int] | None = None
) -> tuple[Bools, Ints]:
    """Servers that could take the VNFs from `first` to before `last` as one run; its needs.

    `beside` has the servers of this chain's other VNFs, by VNF.
    """
    problem = state.problem
    needs = state.needs(chain, first, last)
    wanted = needs[0] if len(needs) == 1 else needs[problem.type_of]
    mask = np.asarray((state.free >= wanted).all(axis=1))
    mask &= ~state.down
    allowed = problem.allowed.get(chain)
    if allowed is not None:
        mask &= allowed
    if problem.groups_of:
        for vnf in range(first, last):
            forbidden = state.forbidden(vnf, beside or {})
            if forbidden is not None:
                mask &= ~forbidden
    return mask, needs


def longest_run(state: State, chain: int, first: int) -> int:
    """The end of the longest run from `first` in which no two VNFs must be apart."""
    problem = state.problem
    end = int(problem.first[chain + 1])
    if not problem.groups_of:
        return end
    seen: set[int] = set()
    for vnf in range(first, end):
        groups = problem.groups_of.get(vnf, [])
        if seen.intersection(groups):
            return vnf
        seen.update(groups)
    return end


def whole(state: State, chain: int, choose: Choose, among: Bools | None = None) -> list[int] | None:
    """The servers of a chain on one server, or None."""
    problem = state.problem
    first, last = int(problem.first[chain]), int(problem.first[chain + 1])
    if longest_run(state, chain, first) < last:
        return None
    mask, needs = candidates(state, chain, first, last)
    if among is not None:
        mask &= among
    length = last - first
    while mask.any():
        server = choose(state, mask, needs)
        servers = [server] * length
        if problem.budget[chain] < 0 or state.in_time(chain, servers):
            return servers
        # Servers of one type have one latency.
        mask = mask & (problem.type_of != problem.type_of[server])
    return None


def cut(
    state: State,
    chain: int,
    choose: Choose,
    among: Bools | None = None,
    *,
    longest: int | None = None,
) -> list[int] | None:
    """The servers of a chain cut into the fewest runs from its start on; None if one has no place.

    Args:
        state: it is as before afterwards.
        chain: a chain that has no place.
        choose: picks the server of each run.
        among: servers that may be used.
        longest: VNFs of a run at most.
    """
    problem = state.problem
    first, end = int(problem.first[chain]), int(problem.first[chain + 1])
    if problem.modes[chain] == "gather":
        return whole(state, chain, choose, among)
    beside: dict[int, int] = {}
    undo: list[tuple[int, Ints]] = []
    found = True
    at = first
    try:
        while at < end:
            limit = longest_run(state, chain, at)
            if longest is not None:
                limit = min(limit, at + longest)
            run = place_run(state, chain, at, limit, choose, among, beside)
            if run is None:
                found = False
                break
            server, last, taken = run
            state.free[server] -= taken
            undo.append((server, taken))
            beside.update(dict.fromkeys(range(at, last), server))
            at = last
    finally:
        for server, taken in undo:
            state.free[server] += taken
    if not found:
        return None
    servers = [beside[vnf] for vnf in range(first, end)]
    return servers if state.fits(chain, servers) else None


def place_run(
    state: State,
    chain: int,
    at: int,
    limit: int,
    choose: Choose,
    among: Bools | None,
    beside: dict[int, int],
) -> tuple[int, int, Ints] | None:
    """The longest run from `at` that has a server: (server, its end, what it takes)."""
    low, high = at, limit
    best: tuple[int, int, Ints] | None = None
    # What holds a run holds a shorter one, so the longest is found by bisection.
    while low < high:
        middle = (low + high + 1) // 2
        mask, needs = candidates(state, chain, at, middle, beside)
        if among is not None:
            mask &= among
        if mask.any():
            server = choose(state, mask, needs)
            best = server, middle, needs[state.problem.type_of[server]]
            low = middle
        else:
            high = middle - 1
    return best


def first_fit(state: State, mask: Bools, needs: Ints) -> int:
    """The first server."""
    return int(mask.argmax())


def best_fit(scale: Floats) -> Choose:
    """The server that is left with the least; `scale` (S x 4) is the worth of a unit of each."""

    def choose(state: State, mask: Bools, needs: Ints) -> int:
        servers = np.flatnonzero(mask)
        left = state.free[servers] - needs[state.problem.type_of[servers]]
        return int(servers[(left * scale[servers]).sum(axis=1).argmin()])

    return choose


def tight_fit(scale: Floats) -> Choose:
    """The server whose scarcest resource is left with the least, weighted towards balance.

    The squares make a server whose resources are left unevenly worse than one with the same sum.
    """

    def choose(state: State, mask: Bools, needs: Ints) -> int:
        servers = np.flatnonzero(mask)
        left = (state.free[servers] - needs[state.problem.type_of[servers]]) * scale[servers]
        return int(servers[np.einsum("ij,ij->i", left, left).argmin()])

    return choose


def least_loaded(scale: Floats) -> Choose:
    """The server with the most left of what it has least of (OpenStack's load balancing)."""

    def choose(state: State, mask: Bools, needs: Ints) -> int:
        servers = np.flatnonzero(mask)
        left = (state.free[servers] - needs[state.problem.type_of[servers]]) * scale[servers]
        return int(servers[np.where(scale[servers] > 0, left, np.inf).min(axis=1).argmax()])

    return choose
