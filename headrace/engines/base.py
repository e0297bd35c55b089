# SPDX-License-Identifier: Apache-2.0
"""What the node asks of an engine: a way to run a VNF. Idempotent, as switch drivers are."""

import hashlib
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Protocol, TypeVar

from pydantic import BaseModel, ConfigDict

from headrace.engines.supervision import Probe, RestartPolicy
from headrace.switches.base import PortKind, PortSpec


class EngineError(Exception):
    """A VNF could not be run; the text says which, why and, if known, the remedy."""


DEFAULT_SLEEP_US = 50
"""The longest sleep of a VNF that is not told another."""


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


_BESIDE = {"forwards", "restart", "readiness", "liveness"}
"""Fields that change nothing of what runs as the VNF, only what is done for it."""


class VnfPort(_Frozen):
    """A port of a VNF: its id in the graph, and the switch's port that it meets."""

    id: str
    mac: str | None = None
    switch_port: PortSpec


class Forward(_Frozen):
    """TCP connections to a port of the host at `address` that are carried to one of the VNF's."""

    address: str
    host_port: int
    vnf_port: int


class VnfSpec(_Frozen):
    """A VNF to be run. `idle` is what a polling VNF does on an empty round: poll, yield, sleep.

    `sleep_us` is the longest sleep, `burst` how many packets one poll of a port takes.

    `user` is the id, of a user and a group, that it alone has; `group` that of its graph's VNFs,
    `node_group` that of all VNFs of the node. Without them it runs as the node itself.
    """

    name: str
    graph: str
    vnf: str
    template: str
    engine: str
    function: str
    ports: tuple[VnfPort, ...]
    cores: tuple[int, ...] = ()
    memory_mb: int = 0
    idle: str = "poll"
    sleep_us: int = DEFAULT_SLEEP_US
    burst: int = 32
    configuration: dict[str, Any] = {}
    user: int | None = None
    group: int | None = None
    node_group: int | None = None
    environment: dict[str, str] = {}
    forwards: tuple[Forward, ...] = ()
    restart: RestartPolicy = RestartPolicy()
    readiness: Probe | None = None
    liveness: Probe | None = None

    def __copy__(self) -> "VnfSpec":
        """A copy that is to be changed has another digest."""
        copied = super().__copy__()
        copied.__dict__.pop("digest", None)
        return copied

    @cached_property
    def digest(self) -> str:
        """Equal only for VNFs that are equal in every field but those that are beside the VNF.

        Fields at their defaults do not count, so that a later version of the node, which has more
        fields, recognizes what an earlier one started.
        """
        text = self.model_dump_json(exclude_defaults=True, exclude=_BESIDE)
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    @property
    def fixed(self) -> str:
        """Equal for VNFs that differ in nothing but their configuration."""
        return self.model_copy(update={"configuration": {}}).digest


class Observed(_Frozen):
    """What of a VNF was found on the machine, by looking there and not into the node's notes.

    `engine` is the way in which it runs, `cores` those that the kernel lets it have (none: nothing
    of it is a process), `user` the id of its user on the host.
    """

    engine: str
    cores: tuple[int, ...] = ()
    user: int | None = None


T = TypeVar("T")


def by_engine(table: Mapping[str, T], engine: str, function: str) -> T | None:
    """What a table has for a function of an engine, else for the engine; None if it has neither.

    A function that an engine runs in another way than its others has a key of its own,
    `engine:function`.
    """
    return table.get(f"{engine}:{function}", table.get(engine))


class Engine(Protocol):
    """One way to run VNFs."""

    name: str
    port_kinds: tuple[PortKind, ...]

    async def check(self, vnf: VnfSpec) -> None:
        """Checks, without any effect, whether the VNF's configuration is one of its function.

        Raises:
            EngineError: it is not; names the key.
        """
        ...

    async def ensure(self, vnf: VnfSpec) -> None:
        """Makes the VNF run as specified; returns when it forwards. One made otherwise is replaced.

        Raises:
            EngineError: it cannot run; nothing of it is left.
        """
        ...

    async def stop(self, vnf: VnfSpec) -> None:
        """Ends the VNF and removes everything of it."""
        ...

    def running(self, vnf: VnfSpec) -> bool:
        """Whether the VNF runs, by this engine and as specified in every field."""
        ...

    def observed(self, vnf: VnfSpec) -> Observed | None:
        """What runs under the VNF's name, however it was made; None if nothing does."""
        ...

    async def counters(self, vnf: VnfSpec) -> dict[str, Any]:
        """Packets and drops by port, as the VNF counts them."""
        ...

    async def cycles(self, vnf: VnfSpec) -> dict[str, Any]:
        """Busy and idle TSC cycles that the VNF has spent."""
        ...

    def processes(self, vnf: VnfSpec) -> tuple[str, ...]:
        """The names, at the supervisor, of the VNF's processes."""
        ...


def engine_of(engines: Mapping[str, Engine], vnf: VnfSpec) -> Engine:
    """The engine that runs the VNF.

    Raises:
        EngineError: the node has none, as after a change of its version.
    """
    found = by_engine(engines, vnf.engine, vnf.function)
    if found is None:
        raise EngineError(f"VNF {vnf.vnf}: there is no engine {vnf.engine!r}")
    return found
