# SPDX-License-Identifier: Apache-2.0
"""The engines of a node, by their names in templates: a new one is a file and a line here.

A key `engine:function` is for a function that runs in another way than the engine's others.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.engines import daemon_container, image, lsi, program, script, vm_image
from headrace.engines.base import Engine, by_engine
from headrace.engines.confinement import Confinement
from headrace.engines.container import ContainerEngine
from headrace.engines.daemon_container import DaemonEngine
from headrace.engines.image import ImageEngine
from headrace.engines.lsi import LsiEngine
from headrace.engines.native import NativeEngine
from headrace.engines.process import ProcessEngine
from headrace.engines.program import ProgramEngine
from headrace.engines.script import ArchiveEngine, ScriptEngine
from headrace.engines.vm import Claim, VmEngine
from headrace.machine.places import unpacked_directory
from headrace.machine.processes import Supervisor
from headrace.switches.base import SwitchDriver

_GRAPH_SETTINGS = {
    "lsi": lsi.GRAPH_SETTINGS,
    "process:program": program.GRAPH_SETTINGS,
    "vm": vm_image.GRAPH_SETTINGS,
    "container:image": image.GRAPH_SETTINGS,
    "container:docker": daemon_container.GRAPH_SETTINGS,
    "native:script": script.GRAPH_SETTINGS,
    "native:archive": script.ARCHIVE_GRAPH_SETTINGS,
}

_HAS_ENVIRONMENT = {"process": True, "container": True, "native:script": True}
_HAS_ENVIRONMENT["native:archive"] = True
_HAS_SERVERS = dict.fromkeys(
    ("container:image", "container:docker", "native:script", "native:archive"), True
)

_HAS_FORWARDS = {**_HAS_SERVERS, "vm": True}

_WHOLE_FRAMES = {
    "process": True,
    "process:program": True,
    "container": True,
    "container:image": False,
    "container:docker": False,
}
"""Whether a VNF's interfaces get frames as a wire has them: DPDK's programs know no others."""


@dataclass(frozen=True)
class EngineSettings:
    """What engines need to know of the node; `prefix` begins the names of its devices."""

    rundir: Path
    prefix: str
    supervisor: Supervisor
    hugepages: bool
    confinement: Confinement
    claim: Claim
    driver: SwitchDriver

    @property
    def images(self) -> Path:
        """Where unpacked images are."""
        return unpacked_directory(self.rundir)


def make_engines(node: EngineSettings) -> dict[str, Engine]:
    """All engines; nothing is started."""
    programs = (node.rundir, node.supervisor, node.hugepages, node.confinement, node.prefix)
    containers = (node.rundir, node.prefix, node.supervisor, node.confinement)
    return {
        "process": ProcessEngine(*programs),
        "process:program": ProgramEngine(*programs),
        "container": ContainerEngine(*programs),
        "container:image": ImageEngine(*containers, node.images),
        "container:docker": DaemonEngine(*containers),
        "vm": VmEngine(node.rundir, node.supervisor, node.hugepages, node.claim, node.confinement),
        "lsi": LsiEngine(node.driver),
        "native": NativeEngine(node.prefix),
        "native:script": ScriptEngine(*containers),
        "native:archive": ArchiveEngine(*containers),
    }


def takes_whole_frames(engine: str, function: str) -> bool:
    """Whether checksums and segments must not be left to a VNF that has an interface."""
    return by_engine(_WHOLE_FRAMES, engine, function) or False


def queues_of(engine: str, configuration: Mapping[str, Any]) -> int:
    """How many queues each port of a VNF has."""
    queues = configuration.get("queues", 1) if engine == "vm" else 1
    return queues if isinstance(queues, int) else 1


def has_environment(engine: str, function: str) -> bool:
    """Whether a VNF has environment variables."""
    return by_engine(_HAS_ENVIRONMENT, engine, function) or False


def has_commands(engine: str, function: str, configuration: Mapping[str, Any]) -> bool:
    """Whether commands can be run in a VNF: in a machine by QEMU's agent, if that is there."""
    if engine == "vm":
        return configuration.get("guest_agent") is True
    return has_environment(engine, function)


def has_servers(engine: str, function: str) -> bool:
    """Whether programs of a VNF may listen in a network namespace of its own."""
    return by_engine(_HAS_SERVERS, engine, function) or False


def has_forwards(engine: str, function: str) -> bool:
    """Whether ports of the host can be forwarded to a VNF."""
    return by_engine(_HAS_FORWARDS, engine, function) or False


def graph_settings(engine: str, function: str) -> frozenset[str] | None:
    """The keys that a template may let a graph set; None: any."""
    return by_engine(_GRAPH_SETTINGS, engine, function)
