# SPDX-License-Identifier: Apache-2.0
"""The things that a deployed graph consists of, each with a key and a content.

A graph's plan is a list of resources in the order in which they are made; they are removed in the
opposite order. An update compares two plans by key and content. Content that cannot be changed in
place is part of the key, so that a change of it is a removal and a creation.
"""

from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from headrace.engines.base import VnfSpec
from headrace.node.planning.replicas import Replicas
from headrace.switches.base import LinkSpec, PortSpec, QueueSpec
from headrace.switches.rules import Rule


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class LsiResource(_Frozen):
    """A logical switch instance; that of an internal group is all graphs' that have it."""

    kind: Literal["lsi"] = "lsi"
    lsi: str
    group: str | None = None

    @property
    def key(self) -> str:
        """Names this resource in its graph."""
        return f"lsi {self.lsi}"


class LinkResource(_Frozen):
    """A pair of patch ports."""

    kind: Literal["link"] = "link"
    link: LinkSpec

    @property
    def key(self) -> str:
        """Names this resource in its graph."""
        return f"link {self.link.first_port}-{self.link.second_port}"


class PortResource(_Frozen):
    """A port of an LSI."""

    kind: Literal["port"] = "port"
    lsi: str
    port: PortSpec

    @property
    def key(self) -> str:
        """Names this resource in its graph."""
        return f"port {self.port.name}"


class QueueResource(_Frozen):
    """A queue of a port."""

    kind: Literal["queue"] = "queue"
    lsi: str
    queue: QueueSpec

    @property
    def key(self) -> str:
        """Names this resource in its graph."""
        return f"queue {self.queue.port} {self.queue.number}"


class ControllerResource(_Frozen):
    """The OpenFlow controller of an LSI."""

    kind: Literal["controller"] = "controller"
    lsi: str
    address: str

    @property
    def key(self) -> str:
        """Names this resource in its graph."""
        return f"controller {self.lsi}"


class VnfResource(_Frozen):
    """A running VNF."""

    kind: Literal["vnf"] = "vnf"
    vnf: VnfSpec

    @property
    def key(self) -> str:
        """Names this resource in its graph."""
        return f"vnf {self.vnf.vnf}"


class HostInterfaceResource(_Frozen):
    """The far end of a port in the host's IP stack, with addresses, or those of a DHCP lease.

    A lease is taken only if it is in one of `networks`.
    """

    kind: Literal["host"] = "host"
    end_point: str
    port: PortSpec
    mac: str | None = None
    addresses: tuple[str, ...] = ()
    dhcp: bool = False
    networks: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """Names this resource in its graph."""
        return f"host {self.port.name}"


class RuleResource(_Frozen):
    """A rule of an LSI."""

    kind: Literal["rule"] = "rule"
    rule: Rule

    @cached_property
    def key(self) -> str:
        """Names this resource in its graph."""
        return f"rule {self.rule.identity}"

    @cached_property
    def text(self) -> str:
        """Its stored form: a large graph's rules are many, and most of them stay."""
        return self.model_dump_json()


Resource = Annotated[
    LsiResource
    | LinkResource
    | PortResource
    | QueueResource
    | ControllerResource
    | VnfResource
    | HostInterfaceResource
    | RuleResource,
    Field(discriminator="kind"),
]
_ADAPTER: TypeAdapter[Resource] = TypeAdapter(Resource)


def to_json(resource: Resource) -> str:
    """The stored form of a resource."""
    return resource.text if isinstance(resource, RuleResource) else resource.model_dump_json()


def from_json(text: str) -> Resource:
    """A resource from its stored form."""
    return _ADAPTER.validate_json(text)


class LinkUse(_Frozen):
    """What a virtual link carries: up, towards the graph's LSI; down, towards LSI-0."""

    number: int
    up: str | None = None
    down: str | None = None


class Claim(_Frozen):
    """What a graph's end-point takes: a physical port, the traffic of one tag on it, a tunnel."""

    port: str
    tag: int | None = None
    shared: bool = False

    def excludes(self, other: "Claim") -> bool:
        """Whether two graphs cannot have these two."""
        apart = None not in (self.tag, other.tag) and self.tag != other.tag
        return self.port == other.port and not apart and not (self.shared and other.shared)


class Plan(_Frozen):
    """How a graph is deployed. `names` and `links` make the next version keep what it can.

    `placement` is what the placement policy says of its choice (policy.py), `replicas` has the VNFs
    that scale (scaling.py), `prediction` is the model's (node/prediction.py).
    """

    resources: tuple[Resource, ...]
    port_names: dict[str, str] = {}
    next_port: int = 0
    links: tuple[LinkUse, ...] = ()
    claims: tuple[Claim, ...] = ()
    warnings: tuple[str, ...] = ()
    placement: dict[str, Any] = {}
    prediction: dict[str, Any] | None = None
    replicas: dict[str, Replicas] = {}

    def to_json(self) -> str:
        """Its stored form, which `model_validate_json` reads."""
        others = self.model_dump_json(exclude={"resources"}).removeprefix("{")
        return f'{{"resources":[{",".join(map(to_json, self.resources))}],{others}'

    def vnfs(self) -> list[VnfSpec]:
        """The graph's VNFs."""
        return [r.vnf for r in self.resources if isinstance(r, VnfResource)]

    def host_interfaces(self) -> list[HostInterfaceResource]:
        """The graph's interfaces in the host's IP stack."""
        return [r for r in self.resources if isinstance(r, HostInterfaceResource)]

    def groups(self) -> dict[str, str]:
        """The LSIs of the internal groups that the graph is in, by the groups' names."""
        lsis = [r for r in self.resources if isinstance(r, LsiResource)]
        return {r.group: r.lsi for r in lsis if r.group is not None}

    def rules(self) -> list[Rule]:
        """The graph's rules on all LSIs."""
        return [r.rule for r in self.resources if isinstance(r, RuleResource)]


EMPTY_PLAN = Plan(resources=())
