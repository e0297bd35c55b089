# SPDX-License-Identifier: Apache-2.0
"""The file that `headrace place` reads: servers, functions, chains and what they must keep.

docs/placement.md describes each field. Errors name the field; references to types, functions,
servers and VNFs that do not exist are found here, before anything is computed.
"""

from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Name = Annotated[str, Field(min_length=1, max_length=100, pattern=r"^[^\s/]+$")]
Mode = Literal["any", "gather", "distribute"]
Domain = Literal["server", "rack"]

T = TypeVar("T", "Server", "Chain")

MAX_VNFS = 64
"""VNFs of one chain at most."""


class DocumentError(Exception):
    """The file can't be read or contradicts itself; the message says where and what to do."""


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class SwitchCycles(_Model):
    """TSC cycles that a packet costs the switch, as `headrace model show` prints them.

    Attributes:
        entry: to take a packet from the network and send it there again, once for each run of
            VNFs on one server.
        visit: to bring it to a VNF and take it back, by the kind of the VNF's ports.
        per_byte: for each byte of the frame in each of these.
    """

    entry: NotNegative
    visit: dict[str, NotNegative]
    per_byte: NotNegative = 0.0


class ServerType(_Model):
    """What servers of one kind have.

    Attributes:
        cores: for VNFs, besides `switch_cores`.
        max_load: share of the switch's cores that may be used, so that queues stay short.
        price: of a server that is used, in any unit.
        core_price: of a core used for an hour of the same, VNFs' and switch's alike.
        hop_us: latency of an entry, and of a visit without the VNF's own.
    """

    cores: Positive
    switch_cores: Positive = 1.0
    ghz: Positive
    memory_mb: Positive
    link_gbps: Positive
    cycles: SwitchCycles
    max_load: Annotated[float, Field(gt=0, le=1)] = 0.9
    price: NotNegative = 1.0
    core_price: NotNegative = 0.0
    hop_us: NotNegative = 0.0


class Server(_Model):
    """One server, or `count` of them with -1, -2 and so on after the name."""

    name: Name
    type: str
    rack: str = ""
    count: Annotated[int, Field(ge=1, le=100_000)] | None = None


class Function(_Model):
    """A kind of VNF: it takes `cores`, or `cycles` for each packet, or both.

    Attributes:
        port: kind of its ports to the switch.
        latency_us: that it adds to a packet.
    """

    cores: NotNegative = 0.0
    cycles: NotNegative = 0.0
    memory_mb: NotNegative = 0.0
    port: str = "vhost-user"
    latency_us: NotNegative = 0.0


class Chain(_Model):
    """A chain of VNFs, or `count` equal ones with -1, -2 and so on after the name.

    Attributes:
        vnfs: the functions in the order in which packets pass them.
        bytes: size of its frames with FCS.
        latency_us: what all of it may take at most.
        placement: gather on one server, distribute over as many as there are VNFs, or any.
        servers: names, types or racks on which alone its VNFs may be; empty: all.
        apart: sets of its VNFs, by number from 0, of which no two may share a server.
    """

    name: Name
    vnfs: Annotated[list[str], Field(min_length=1, max_length=MAX_VNFS)]
    kpps: Positive
    bytes: Annotated[float, Field(ge=64, le=65_535)] = 512.0
    latency_us: Positive | None = None
    placement: Mode = "any"
    servers: list[str] = []
    apart: list[Annotated[list[int], Field(min_length=2)]] = []
    count: Annotated[int, Field(ge=1, le=1_000_000)] | None = None


class Apart(_Model):
    """VNFs of several chains, as `chain/number`, of which no two may share a server or rack."""

    vnfs: Annotated[list[str], Field(min_length=2)]
    domain: Domain = "server"


class Document(_Model):
    """The whole file.

    Attributes:
        headroom: servers that may fail at any time, 0 or 1: for each server the plan holds where
            its VNFs go, with room for them.
        network_us: latency between two servers.
    """

    types: Annotated[dict[str, ServerType], Field(min_length=1)]
    servers: Annotated[list[Server], Field(min_length=1)]
    functions: dict[str, Function]
    chains: list[Chain]
    apart: list[Apart] = []
    headroom: Annotated[int, Field(ge=0, le=1)] = 0
    network_us: NotNegative = 0.0

    @model_validator(mode="after")
    def _references(self) -> Self:
        racks = {server.rack for server in self.servers if server.rack}
        servers = self.all_servers()
        known = {server.name for server in servers}
        if len(known) < len(servers):
            raise ValueError(f"servers: two have the name {_twice([s.name for s in servers])}")
        for place, server in enumerate(self.servers):
            if server.type not in self.types:
                raise ValueError(
                    f"servers[{place}].type: {server.type!r} is no type; there are: "
                    f"{', '.join(self.types)}"
                )
        where = known | racks | set(self.types)
        for place, chain in enumerate(self.chains):
            self._chain(f"chains[{place}] ({chain.name})", chain, where)
        chains = self.all_chains()
        lengths = {chain.name: len(chain.vnfs) for chain in chains}
        if len(lengths) < len(chains):
            raise ValueError(f"chains: two have the name {_twice([c.name for c in chains])}")
        for place, rule in enumerate(self.apart):
            for vnf in rule.vnfs:
                name, _, number = vnf.rpartition("/")
                if name not in lengths or not number.isdecimal() or int(number) >= lengths[name]:
                    raise ValueError(
                        f"apart[{place}].vnfs: there is no VNF {vnf!r}; write chain/number with "
                        f"numbers from 0"
                    )
            if len(set(rule.vnfs)) < len(rule.vnfs):
                raise ValueError(f"apart[{place}].vnfs: a VNF can't be apart from itself")
            if rule.domain == "rack" and any(not server.rack for server in self.servers):
                raise ValueError(f"apart[{place}]: by rack, but not every server has a rack")
        return self

    def _chain(self, place: str, chain: Chain, where: set[str]) -> None:
        for number, function in enumerate(chain.vnfs):
            if function not in self.functions:
                raise ValueError(
                    f"{place}.vnfs[{number}]: {function!r} is no function; there are: "
                    f"{', '.join(self.functions) or 'none'}"
                )
            kind = self.functions[function].port
            lacking = [name for name, one in self.types.items() if kind not in one.cycles.visit]
            if lacking:
                raise ValueError(
                    f"types.{lacking[0]}.cycles.visit: no cost of {kind} ports, which "
                    f"{function!r} has; measure it, or choose another port"
                )
        for name in chain.servers:
            if name not in where:
                raise ValueError(f"{place}.servers: {name!r} is no server, type or rack")
        for group in chain.apart:
            outside = [n for n in group if not 0 <= n < len(chain.vnfs)]
            if outside or len(set(group)) < len(group):
                raise ValueError(
                    f"{place}.apart: {group} are no different VNFs of 0 to {len(chain.vnfs) - 1}"
                )
        if chain.placement == "gather" and chain.apart:
            raise ValueError(
                f"{place}: placement is gather, but apart wants VNFs on different servers; "
                f"drop one of the two"
            )

    def all_servers(self) -> list[Server]:
        """The servers one by one."""
        return [one for server in self.servers for one in _expanded(server)]

    def all_chains(self) -> list[Chain]:
        """The chains one by one."""
        return [one for chain in self.chains for one in _expanded(chain)]


def _twice(names: list[str]) -> str:
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    raise AssertionError("no name is there twice")


def _expanded(one: T) -> list[T]:
    if one.count is None:
        return [one]
    return [
        one.model_copy(update={"name": f"{one.name}-{number}", "count": None})
        for number in range(1, one.count + 1)
    ]


def parse(content: Any) -> Document:
    """The document of parsed YAML or JSON.

    Raises:
        DocumentError: a field is wrong; the message names it.
    """
    try:
        return Document.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        told = first["msg"].removeprefix("Value error, ")
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        raise DocumentError(f"{place + ': ' if place else ''}{told}{more}") from error


def read(path: Path) -> Any:
    """A file as parsed YAML.

    Raises:
        DocumentError: it can't be read.
    """
    try:
        return yaml.safe_load(path.read_text())
    except OSError as error:
        raise DocumentError(f"{path}: {error.strerror}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise DocumentError(f"{path}: not YAML: {error}") from error


def load(path: Path) -> Document:
    """Reads a document.

    Raises:
        DocumentError: it can't be read.
    """
    content = read(path)
    try:
        return parse(content)
    except DocumentError as error:
        raise DocumentError(f"{path}: {error}") from error
