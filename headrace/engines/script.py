# SPDX-License-Identifier: Apache-2.0
"""Functions `script` and `archive` of the engine `native`: programs of the host's operator.

A program has the host's /usr, read-only, kernel interfaces in a network namespace of its own, and
there the right to configure it (CAP_NET_ADMIN, CAP_NET_RAW): interfaces, routes, nftables, bridges,
tunnels. Beyond that it is confined as a container, as a user of its own.

`script`: one file, `program`. It runs as long as the VNF; with `once` it only sets things up, ends
with 0, and what it has set up stays.

`archive`: a tar or tar.gz with `start` and, if need be, `stop`, as the original node had them: run
in the archive's directory with the graph, the VNF, the number of ports and the interfaces as
arguments. `start` sets up and ends; `stop` is run before the VNF ends and has some seconds.
"""

import shutil
from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator

from headrace.engines import interfaces
from headrace.engines.base import EngineError, VnfSpec
from headrace.engines.images import ImageError
from headrace.engines.images.layers import Budget, unpack_file
from headrace.engines.interface_container import InterfaceContainerEngine, ProgramSettings, S
from headrace.engines.oci import Container, make_bundle

GRAPH_SETTINGS = interfaces.GRAPH_SETTINGS | {
    "arguments",
    "environment",
    "ready",
    "settings",
    "start_s",
}
"""The keys that may come from a graph: the others name files of the host."""

ARCHIVE_GRAPH_SETTINGS = GRAPH_SETTINGS - {"arguments"}
"""Those of an archive, whose arguments are the original node's."""

SET_UP = "headrace: set up"
"""What the first process of a VNF writes once its program has set things up and ended with 0."""

_CAPABILITIES = ("CAP_NET_ADMIN", "CAP_NET_RAW")
_BUDGET = Budget(octets=1 << 30, entries=100_000)
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"

# $1 is the program to stop by, or nothing; what follows is the program and its arguments.
_ONCE = (
    'stop=$1; shift; program=$1; shift; trap \'[ -z "$stop" ] || "$stop" "$@"; exit 0\' TERM; '
    f'"$program" "$@" || exit; echo "{SET_UP}"; while :; do sleep 1000 & wait; done'
)


def _is_file(text: str) -> str:
    if not Path(text).is_absolute() or not Path(text).is_file():
        raise ValueError(f"there is no file {text}; give an absolute path")
    return text


class _NativeSettings(ProgramSettings):
    environment: dict[str, str] = Field({})


class ScriptSettings(_NativeSettings):
    """`program`: a file of the host that can be executed; `once`: it sets up and ends."""

    program: str
    arguments: Annotated[tuple[str, ...], Field(max_length=256)] = ()
    once: bool = False

    _file = field_validator("program")(_is_file)


class ArchiveSettings(_NativeSettings):
    """`archive`: a tar or tar.gz of the host with `start` and perhaps `stop` at its top."""

    archive: str

    _file = field_validator("archive")(_is_file)


class _NativeContainerEngine(InterfaceContainerEngine[S]):
    """What both have in common: the host's programs, and a directory of the VNF's own."""

    name = "native"
    patience_s = 10.0

    def _container(
        self, vnf: VnfSpec, settings: _NativeSettings, argv: list[str], readable: Path
    ) -> Container:
        if vnf.user is None or vnf.group is None or vnf.node_group is None:
            raise EngineError(f"VNF {vnf.vnf}: a native VNF needs a user and groups of its own")
        own = self._confinement
        return Container(
            name=vnf.name,
            argv=argv,
            environment={
                **own.environment(vnf),
                "PATH": _PATH,
                **settings.environment,
                **vnf.environment,
                **self._settings_variable(vnf),
                **self._supervisor.mark(self._process(vnf)),
            },
            limits=own.limits(vnf),
            cgroup=f"/{own.group(vnf)}",
            user=vnf.user,
            group=vnf.group,
            node_group=vnf.node_group,
            readable=(
                self._settings_file(vnf).parent,
                *(() if readable.is_relative_to("/usr") else (readable,)),
            ),
            writable=(own.own(vnf),),
            capabilities=_CAPABILITIES,
            directory=str(readable if readable.is_dir() else own.own(vnf)),
        )

    def _clean(self, vnf: VnfSpec) -> None:
        """See InterfaceContainerEngine."""
        shutil.rmtree(self._bundle(vnf), ignore_errors=True)


class ScriptEngine(_NativeContainerEngine[ScriptSettings]):
    """Single programs."""

    settings_model = ScriptSettings

    def _ready_text(self, settings: ScriptSettings) -> str:
        """See InterfaceContainerEngine."""
        return SET_UP if settings.once else settings.ready

    def _prepare(self, vnf: VnfSpec, settings: ScriptSettings, bundle: Path) -> Container:
        """See InterfaceContainerEngine."""
        argv = [settings.program, *settings.arguments]
        if settings.once:
            argv = ["/bin/sh", "-c", _ONCE, "sh", "", *argv]
        container = self._container(vnf, settings, argv, Path(settings.program))
        make_bundle(container, bundle)
        return container


class ArchiveEngine(_NativeContainerEngine[ArchiveSettings]):
    """The original node's archives."""

    settings_model = ArchiveSettings

    def _ready_text(self, settings: ArchiveSettings) -> str:
        """See InterfaceContainerEngine."""
        return settings.ready or SET_UP

    def _prepare(self, vnf: VnfSpec, settings: ArchiveSettings, bundle: Path) -> Container:
        """See InterfaceContainerEngine."""
        place = self._confinement.place(vnf) / "archive"
        shutil.rmtree(place, ignore_errors=True)
        try:
            budget = Budget(_BUDGET.octets, _BUDGET.entries)
            unpack_file(Path(settings.archive), place, budget)
        except ImageError as error:
            raise EngineError(f"VNF {vnf.vnf}: {settings.archive}: {error}") from error
        place.chmod(0o755)
        start, stop = place / "start", place / "stop"
        for program in (start, stop):
            if program.is_symlink() or (program.exists() and not program.is_file()):
                raise EngineError(f"VNF {vnf.vnf}: {settings.archive}: {program.name} is no file")
            if program.exists():
                program.chmod(0o755)
        if not start.exists():
            raise EngineError(f"VNF {vnf.vnf}: {settings.archive} has no file `start`")
        devices = [f"eth{number}" for number in range(len(vnf.ports))]
        words = [vnf.graph, vnf.vnf, str(len(devices)), *devices]
        first = ["/bin/sh", "-c", _ONCE, "sh", str(stop) if stop.exists() else "", str(start)]
        container = self._container(vnf, settings, [*first, *words], place)
        make_bundle(container, bundle)
        return container
