# SPDX-License-Identifier: Apache-2.0
"""What VNFs can be made from: templates, read from YAML files of this folder and of node.yaml.

Outside they have the form of the original node's template datastore (its REST paths `/v2/...`).
"""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from headrace.engines.environment import ANY, fault_of
from headrace.engines.registry import (
    graph_settings,
    has_commands,
    has_environment,
    has_forwards,
    has_servers,
)
from headrace.engines.supervision import Probe, RestartPolicy
from headrace.node.config import Burst, Idle
from headrace.node.errors import ConfigError, describe, one_line
from headrace.node.planning.nffg import VnfModel

LEGACY_TYPES = {
    "process": "dpdk",
    "container": "docker",
    "vm": "virtual-machine-kvm",
    "lsi": "native",
}
"""What the original node calls our engines; `native` is the same."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class PortRange(_Strict):
    """How many ports a VNF of this template may have, and what they are called.

    With `roles` each label is a key of the configuration that names a port: the graph's port of
    that label, or at that place.
    """

    min: Annotated[int, Field(ge=1)] = 2
    max: Annotated[int, Field(ge=1)] = 2
    labels: tuple[str, ...] = ()
    roles: bool = False


class Template(_Strict):
    """A template: which engine runs which function, with what.

    `graph_may_set` are the keys of `configuration` that a graph may set; all else is the
    template's. What names something of the host (a file, a device, a command) can't be among them.
    `environment` has variables for the VNF; an entry `environment.NAME` of `graph_may_set` lets a
    graph set that one, `environment` any. `graph_may_forward` are TCP ports of the VNF that a graph
    may have forwarded from ports of the host. `idle` and `burst` are those of node.yaml if they are
    not given.
    """

    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,64}$")]
    name: str
    functional_capability: str = Field(alias="functional-capability")
    description: str = ""
    engine: str
    function: str
    cores: Annotated[int, Field(ge=0)] = 0
    memory_mb: Annotated[int, Field(ge=0)] = Field(0, alias="memory-mb")
    idle: Idle | None = None
    burst: Burst | None = None
    ports: PortRange = PortRange()
    configuration: dict[str, Any] = {}
    graph_may_set: tuple[str, ...] = Field((), alias="graph-may-set")
    restart: RestartPolicy = RestartPolicy()
    readiness: Probe | None = None
    liveness: Probe | None = None
    environment: dict[str, str] = {}
    graph_may_forward: tuple[Annotated[int, Field(ge=1, le=65535)], ...] | Literal["any"] = Field(
        (), alias="graph-may-forward"
    )

    @model_validator(mode="after")
    def _keeps_the_host(self) -> "Template":
        settings = graph_settings(self.engine, self.function)
        with_variables = has_environment(self.engine, self.function)
        for key in self.graph_may_set if settings is not None else ():
            if key.partition(".")[0] == ANY and with_variables:
                continue
            if key not in (settings or ()):
                known = ", ".join(sorted(settings or ()))
                raise ValueError(
                    f"graph-may-set: {key} of engine {self.engine} names something of the host "
                    f"or is unknown; a graph may set: {known}"
                )
        return self

    @model_validator(mode="after")
    def _fits_its_engine(self) -> "Template":
        fault = fault_of(self.environment)
        if fault is not None:
            raise ValueError(f"environment: {fault}")
        wanted = self.environment or any(k.partition(".")[0] == ANY for k in self.graph_may_set)
        kind = f"function {self.function} of engine {self.engine}"
        if wanted and not has_environment(self.engine, self.function):
            raise ValueError(f"environment: {kind} has no environment variables")
        for name, probe in (("readiness", self.readiness), ("liveness", self.liveness)):
            if probe is None:
                continue
            if probe.exec and not has_commands(self.engine, self.function, self.configuration):
                hint = "; say `guest_agent: true` of a machine with QEMU's agent"
                text = f"{name}.exec: {kind} runs no commands"
                raise ValueError(text + (hint if self.engine == "vm" else ""))
            if not probe.exec and not has_servers(self.engine, self.function):
                raise ValueError(f"{name}: {kind} has no TCP ports of its own; use exec")
        if self.graph_may_forward and not has_forwards(self.engine, self.function):
            raise ValueError(f"graph-may-forward: {kind} has no TCP ports of its own")
        return self

    def wire(self) -> dict[str, Any]:
        """The template as the original datastore gives it."""
        kind = LEGACY_TYPES.get(self.engine, self.engine)
        return {
            "name": self.name,
            "functional-capability": self.functional_capability,
            "vnf-type": kind,
            "uri-image": f"headrace:{self.function}",
            "uri-image-type": "local-file",
            "expandable": False,
            "memory-size": self.memory_mb,
            "CPUrequirements": {
                "platformType": "x86",
                "socket": [{"coreNumbers": self.cores}],
            },
            "ports": [
                {
                    "position": f"0-{self.ports.max - 1}",
                    "label": label,
                    "name": label,
                    "min": str(self.ports.min),
                }
                for label in (self.ports.labels or ("port",))
            ],
        }


class TemplateStore:
    """All templates of a node, in the order in which they were read.

    `unusable` are those that it keeps but cannot run, by their ids and capabilities, with why.
    """

    def __init__(
        self, templates: Iterable[Template], unusable: Mapping[str, str] | None = None
    ) -> None:
        self._templates = {template.id: template for template in templates}
        self._unusable = dict(unusable or {})

    def why_not(self, vnf: VnfModel) -> str | None:
        """Why what a VNF asks for cannot be run, although the node has it."""
        for asked in (vnf.vnf_template, vnf.functional_capability, vnf.name):
            if asked in self._unusable:
                return f"{asked!r}: {self._unusable[asked]}"
        return None

    def all(self) -> list[Template]:
        """Every template."""
        return list(self._templates.values())

    def get(self, template_id: str) -> Template | None:
        """The template with this id."""
        return self._templates.get(template_id)

    def capable(self, capability: str) -> list[Template]:
        """The templates of a functional capability, best first."""
        return [t for t in self.all() if capability in (t.functional_capability, t.name, t.id)]

    def candidates(self, vnf: VnfModel) -> tuple[list[Template], str]:
        """The templates that a VNF may be made from, and the words by which it asked for them.

        `vnf_template` alone decides if it is there; else `functional-capability`, else `name`,
        which the original node looked up as a capability.
        """
        if vnf.vnf_template:
            found = self.get(vnf.vnf_template)
            return ([found] if found else []), f"vnf_template {vnf.vnf_template!r}"
        for key, value in (
            ("functional-capability", vnf.functional_capability),
            ("name", vnf.name),
        ):
            if value and self.capable(value):
                return self.capable(value), f"{key} {value!r}"
        wanted = vnf.functional_capability or vnf.name
        return [], f"functional-capability {wanted!r}" if wanted else "no template"


def load(paths: Iterable[Path]) -> TemplateStore:
    """Reads the templates of this folder, then those of `paths` (files or folders), which win.

    Raises:
        ConfigError: a file cannot be read or is no template; names the file and the key.
    """
    templates = []
    for path in (Path(__file__).parent, *paths):
        files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
        for file in files:
            try:
                templates.append(Template.model_validate(yaml.safe_load(file.read_text())))
            except OSError as error:
                raise ConfigError("templates", f"{file}: {error.strerror}") from error
            except yaml.YAMLError as error:
                raise ConfigError("templates", f"{file}: no YAML: {one_line(error)}") from error
            except ValidationError as error:
                text = f"{file}: {describe(error, 'template')}"
                raise ConfigError("templates", text) from None
    return TemplateStore(templates)
