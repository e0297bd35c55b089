# SPDX-License-Identifier: Apache-2.0
"""What is known of each VNF beside its process: restarts, probes, and whether it stays ended.

Restarts, and which VNFs stay ended, are in the node's database, so that they outlive the node;
probes are put anew. An update of a graph begins anew with all of it.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from headrace.engines.base import Engine, VnfSpec
from headrace.engines.probes import ask
from headrace.engines.supervision import Probe, RestartPolicy
from headrace.node.deployment.store import Store

log = logging.getLogger("headrace.node")

_STEADY_S = 60.0


@dataclass
class Question:
    """One probe of a VNF: when it is due, and how it went. `passes` is None before the first."""

    due: float = 0.0
    failures: int = 0
    passes: bool | None = None
    said: str = ""


@dataclass
class VnfState:
    """One VNF. `held`: why it stays ended; `failed`: it was ended for failing its liveness probe.

    `process` is what its questions were put to; `streak` counts restarts since it last was steady.
    """

    restarts: int = 0
    streak: int = 0
    last: float | None = None
    wait_s: float = 0.0
    held: str = ""
    failed: str = ""
    process: object = None
    readiness: Question = field(default_factory=Question)
    liveness: Question = field(default_factory=Question)

    def may_restart(self, policy: RestartPolicy, exit_code: int | None, now: float) -> bool:
        """Whether a VNF that has ended is to be started now; if so, that is counted.

        An exit code that is not known (the node was not there) is a failure. If the VNF is not to
        be started at all, `held` says why from now on.
        """
        if self.held:
            return False
        code = "an unknown code" if exit_code is None else str(exit_code)
        how = self.failed or f"it has ended with {code}"
        if policy.policy == "never":
            self.held = f"{how}; its restart policy is never"
        elif policy.policy == "on-failure" and exit_code == 0 and not self.failed:
            self.held = f"{how}; its restart policy is on-failure"
        elif self.last is not None and now - self.last > _STEADY_S + self.wait_s:
            self.streak, self.wait_s = 0, 0.0
        if not self.held and policy.limit is not None and self.streak >= policy.limit:
            self.held = f"{how}; it was restarted {policy.limit} times, its limit"
        if self.held:
            return False
        if self.last is not None and now - self.last < self.wait_s:
            return False
        self.restarts, self.streak, self.last = self.restarts + 1, self.streak + 1, now
        self.wait_s = min(max(policy.backoff_s, 2 * self.wait_s), policy.longest_s)
        self.failed = ""
        return True


class Supervision:
    """The states of all VNFs of a node."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._states = dict(self._noted())
        self._tasks: dict[tuple[str, str, str], asyncio.Task[None]] = {}

    def _noted(self) -> Iterator[tuple[tuple[str, str], VnfState]]:
        """What the node knew when it ended, its times as this process counts them."""
        behind_s = time.time() - time.monotonic()
        for graph, vnf, restarts, streak, wait_s, last, held in self._store.rows(
            "SELECT graph, vnf, restarts, streak, wait_s, last, held FROM restart"
        ):
            state = VnfState(restarts, streak, wait_s=wait_s, held=held)
            state.last = None if last is None else last - behind_s
            yield (graph, vnf), state

    def may_restart(self, vnf: VnfSpec, exit_code: int | None, now: float) -> bool:
        """See VnfState: whether an ended VNF is to be started now; noted if that changes it."""
        state = self.state(vnf)
        before = (state.restarts, state.held)
        answer = state.may_restart(vnf.restart, exit_code, now)
        if (state.restarts, state.held) != before:
            last = None if state.last is None else state.last + time.time() - time.monotonic()
            self._store.write(
                "INSERT OR REPLACE INTO restart VALUES (?,?,?,?,?,?,?)",
                *(vnf.graph, vnf.vnf, state.restarts, state.streak, state.wait_s, last, state.held),
            )
        return answer

    def state(self, vnf: VnfSpec) -> VnfState:
        """The state of a VNF."""
        return self._states.setdefault((vnf.graph, vnf.vnf), VnfState())

    def forget(self, graph: str) -> None:
        """Begins anew with a graph that is created, changed or deleted."""
        known = [key for key in self._states if key[0] == graph]
        for key in known:
            del self._states[key]
        if known:
            self._store.write("DELETE FROM restart WHERE graph=?", graph)

    def held(self, vnfs: Iterable[VnfSpec]) -> frozenset[str]:
        """The ids of those VNFs that stay ended."""
        return frozenset(vnf.vnf for vnf in vnfs if self.state(vnf).held)

    def report(self, vnf: VnfSpec) -> dict[str, object]:
        """What the status of a VNF says: `ready` is null if nothing tells, or not yet."""
        state = self.state(vnf)
        said = {
            kind: question.said
            for kind, question in (("readiness", state.readiness), ("liveness", state.liveness))
            if question.said
        }
        ready = state.readiness.passes if vnf.readiness else None
        return {"ready": ready, "restarts": state.restarts, "held": state.held, "probes": said}

    def put_questions(self, vnf: VnfSpec, engine: Engine, process: object) -> None:
        """Starts the probes of a running VNF that are due; they go on by themselves."""
        state, now = self.state(vnf), time.monotonic()
        if state.process != process:
            state.process = process
            for kind in ("readiness", "liveness"):
                probe: Probe | None = getattr(vnf, kind)
                setattr(state, kind, Question(due=now + (probe.initial_s if probe else 0.0)))
        for kind in ("readiness", "liveness"):
            probe, question = getattr(vnf, kind), getattr(state, kind)
            key = (vnf.graph, vnf.vnf, kind)
            if probe is not None and now >= question.due and key not in self._tasks:
                question.due = now + probe.period_s
                task = asyncio.create_task(self._put(vnf, engine, probe, question))
                self._tasks[key] = task
                task.add_done_callback(self._done(key))

    def _done(self, key: tuple[str, str, str]) -> Callable[[asyncio.Task[None]], None]:
        def done(task: asyncio.Task[None]) -> None:
            self._tasks.pop(key, None)
            if not task.cancelled() and task.exception() is not None:
                log.error("VNF %s: its %s probe: %s", key[1], key[2], task.exception())

        return done

    async def _put(self, vnf: VnfSpec, engine: Engine, probe: Probe, question: Question) -> None:
        fault = await ask(engine, vnf, probe)
        question.failures = 0 if fault is None else question.failures + 1
        question.said = fault or ""
        if fault is None:
            question.passes = True
        elif question.failures >= probe.failures:
            question.passes = False

    async def settle(self) -> None:
        """Waits for the questions that are under way."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def close(self) -> None:
        """Lets go of the questions that are under way."""
        for task in self._tasks.values():
            task.cancel()
