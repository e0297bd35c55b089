# SPDX-License-Identifier: Apache-2.0
"""Templates as the original's clients write them, and what of them this node can run.

Every template that has the original's form is kept and given back as it was written. Whether a
graph can use it is another question: an engine must be able to run its image. These can be run:

* `headrace:<function>` as `uri-image`: a function of headrace-vnf or of the engine native, with the
  settings of the template of this node that has the function.
* `virtual-machine-kvm`, `docker` and `native` with an image in the datastore (contents.py): a disk,
  an image of a container, an archive with `start` and perhaps `stop`.
* `docker` with an image of a registry (`docker-registry`), if node.yaml names the registry.
"""

import re
from typing import Annotated, Any, Literal

from pydantic import (
    AliasChoices,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from headrace.engines import image, script
from headrace.engines.environment import ANY
from headrace.engines.images.sources import REGISTRY
from headrace.engines.oci import CAPABILITIES
from headrace.node.errors import GraphRefused, describe
from headrace.node.planning.nffg import MAX_PORTS
from headrace.node.templates import LEGACY_TYPES, PortRange, Template

OWN_SCHEME = "headrace:"
START_SCRIPT = "/start.sh"
"""What the original node ran in containers."""

_DEFAULT_MEMORY_MB = 512
_CONTAINER_MEMORY_MB = 128
_MOST_CORES, _MOST_MEMORY_MB = 1024, 1 << 20


def _number(value: Any) -> Any:
    """Older samples write numbers as text."""
    return int(value) if isinstance(value, str) and re.fullmatch(r"\d{1,9}", value) else value


_Numeral = BeforeValidator(_number, json_schema_input_type=float | str)

Cores = Annotated[int, _Numeral, Field(ge=0, le=_MOST_CORES)]
Megabytes = Annotated[float, _Numeral, Field(ge=0, le=_MOST_MEMORY_MB)]
Minimum = Annotated[int, _Numeral, Field(ge=0, le=MAX_PORTS)]
Line = Annotated[str, Field(max_length=256)]


class _Open(BaseModel):
    model_config = ConfigDict(extra="allow", populate_by_name=True)


class WirePort(_Open):
    """A range of ports: `position` is `a-b` or `a-N`."""

    position: Annotated[str, Field(pattern=r"^\d{1,4}(-(\d{1,4}|N))?$")]
    label: Line = "port"
    min: Minimum = 0

    def count(self) -> int:
        """How many ports it has at most."""
        first, _, last = self.position.partition("-")
        if last == "N":
            return MAX_PORTS
        return min(max(int(last or first) - int(first) + 1, 0), MAX_PORTS)


class WireSocket(_Open):
    """The cores of one processor."""

    cores: Cores = Field(1, validation_alias=AliasChoices("coreNumbers", "cores"))


class WireCpu(_Open):
    """What the function needs of the processor."""

    socket: Annotated[list[WireSocket], Field(max_length=8)] = []


class WireTemplate(_Open):
    """A template in the form of the original; `uri` and `uri-type` are that of older ones."""

    name: Line | None = None
    functional_capability: Line | None = Field(
        None, validation_alias=AliasChoices("functional-capability", "functional_capability")
    )
    kind: Literal["virtual-machine-kvm", "kvm", "docker", "native", "dpdk", "onos-application"] = (
        Field(validation_alias=AliasChoices("vnf-type", "kind"))
    )
    uri: Annotated[str, Field(max_length=2048)] = Field(
        "", validation_alias=AliasChoices("uri-image", "uri")
    )
    uri_type: Line = Field("", validation_alias=AliasChoices("uri-image-type", "uri-type"))
    memory: Megabytes = Field(0, validation_alias=AliasChoices("memory-size", "memory"))
    cpu: WireCpu = Field(
        default_factory=WireCpu, validation_alias=AliasChoices("CPUrequirements", "cpu")
    )
    ports: Annotated[list[WirePort], Field(min_length=1, max_length=MAX_PORTS)]

    @model_validator(mode="after")
    def _is_named(self) -> "WireTemplate":
        if not self.name and not self.functional_capability:
            raise ValueError("name and functional-capability are missing; one of them is needed")
        return self

    @property
    def capability(self) -> str:
        """What it can do."""
        return self.functional_capability or self.name or ""

    @property
    def needs_image(self) -> bool:
        """Whether it cannot be run without an image in the datastore."""
        kinds = ("virtual-machine-kvm", "kvm", "docker", "native")
        return self.kind in kinds and not self.is_own and not self.registry

    @property
    def registry(self) -> str:
        """The image at a registry that it names, as `docker://...`; empty if it names none."""
        if self.kind != "docker" or self.uri_type != "docker-registry":
            return ""
        return f"{REGISTRY}{self.uri.removeprefix(REGISTRY)}"

    @property
    def is_own(self) -> bool:
        """Whether it is a function of this node's own programs."""
        return self.uri.startswith(OWN_SCHEME)


def read(content: Any) -> WireTemplate:
    """The template of a document.

    Raises:
        GraphRefused: it has not the form; names the place.
    """
    if not isinstance(content, dict):
        raise GraphRefused("templates", "a template is a JSON object")
    try:
        return WireTemplate.model_validate(content)
    except ValidationError as error:
        raise GraphRefused("templates", describe(error, "template")) from None


class Unusable(Exception):
    """A template that this node keeps, but cannot run; the text says why."""


def own_function(template_id: str, wire: WireTemplate, known: list[Template]) -> Template:
    """The template of a function of this node's own programs.

    Raises:
        Unusable: there is no such function for that type.
    """
    function = wire.uri.removeprefix(OWN_SCHEME)
    engines = [ours for ours, theirs in LEGACY_TYPES.items() if theirs == wire.kind]
    # headrace-vnf is the same program in a process and in a container.
    programs = {"process", "container"}
    alike = programs if programs & {*engines} else {*engines, wire.kind}
    like = next((t for t in known if t.function == function and t.engine in alike), None)
    if like is None:
        raise Unusable(f"no function {function!r} of type {wire.kind}")
    engine = engines[0] if alike is programs else like.engine
    return Template.model_validate(
        {
            **_common(template_id, wire),
            "engine": engine,
            "function": function,
            "cores": like.cores if not wire.cpu.socket else _cores(wire),
            "memory-mb": int(wire.memory) or like.memory_mb,
            "configuration": like.configuration,
            "graph-may-set": like.graph_may_set,
        }
    )


def from_image(template_id: str, wire: WireTemplate, place: str, image_format: str) -> Template:
    """The template of what runs from an image of the datastore, or of a registry.

    Raises:
        Unusable: no engine runs images of that type.
    """
    if wire.kind == "docker":
        return _container(template_id, wire, place)
    if wire.kind == "native":
        return _archive(template_id, wire, place)
    if wire.kind in ("virtual-machine-kvm", "kvm"):
        return _machine(template_id, wire, place, image_format)
    raise Unusable(f"no engine of this node runs images of type {wire.kind}")


def _container(template_id: str, wire: WireTemplate, place: str) -> Template:
    """As the original ran it: with `start.sh`, if it has one, and what its networks need.

    Capabilities are valid in the container's own namespaces alone.
    """
    return Template.model_validate(
        {
            **_common(template_id, wire),
            "engine": "container",
            "function": "image",
            "cores": max(_cores(wire), 1),
            "memory-mb": int(wire.memory) or _CONTAINER_MEMORY_MB,
            "configuration": {
                "image": place,
                "start": START_SCRIPT,
                "capabilities": list(CAPABILITIES),
            },
            "graph-may-set": tuple(sorted({*image.GRAPH_SETTINGS, ANY})),
            "graph-may-forward": "any",
        }
    )


def _archive(template_id: str, wire: WireTemplate, place: str) -> Template:
    return Template.model_validate(
        {
            **_common(template_id, wire),
            "engine": "native",
            "function": "archive",
            "cores": max(_cores(wire), 1),
            "memory-mb": int(wire.memory) or _CONTAINER_MEMORY_MB,
            "configuration": {"archive": place},
            "graph-may-set": tuple(sorted({*script.ARCHIVE_GRAPH_SETTINGS, ANY})),
            "graph-may-forward": "any",
        }
    )


def _machine(template_id: str, wire: WireTemplate, disk: str, disk_format: str) -> Template:
    cores = max(_cores(wire), 1)
    return Template.model_validate(
        {
            **_common(template_id, wire),
            "engine": "vm",
            "function": "guest",
            "cores": cores,
            "memory-mb": int(wire.memory) or _DEFAULT_MEMORY_MB,
            "configuration": {"disk": disk, "format": disk_format, "cpus": min(cores, 64)},
            "graph-may-set": ("boot_s", "firmware", "ready", "user_data"),
            "graph-may-forward": "any",
        }
    )


def _cores(wire: WireTemplate) -> int:
    return min(sum(socket.cores for socket in wire.cpu.socket), _MOST_CORES)


def _common(template_id: str, wire: WireTemplate) -> dict[str, Any]:
    most = max(min(sum(port.count() for port in wire.ports), MAX_PORTS), 1)
    least = min(max(sum(port.min for port in wire.ports), 1), most)
    return {
        "id": template_id,
        "name": wire.name or wire.capability,
        "functional-capability": wire.capability,
        "ports": PortRange(min=least, max=most, labels=tuple(port.label for port in wire.ports)),
    }
