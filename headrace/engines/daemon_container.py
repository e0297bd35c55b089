# SPDX-License-Identifier: Apache-2.0
"""Function `docker` of the engine `container`: containers of a Docker or Podman that runs here.

The daemon has the image, makes the container and keeps its output; it is asked by Docker's API,
which Podman serves, too. Everything else is as with the node's own containers: the ports are veth
pairs whose ends are moved into the container's network namespace, and the VNF is watched by its
first process.

The program runs before its interfaces are there, since no daemon makes them. So, as with the
original node, a command is run in the container once they are (`start`), and the VNF counts as
started when that has been done.

How far a container is from the host is the daemon's affair: its root is the host's unless the
daemon maps users. All capabilities are taken from it but those of the template.
"""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Annotated, Any, Literal, TypeVar

import docker
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from pydantic import Field
from requests.exceptions import RequestException

from headrace.engines import interfaces
from headrace.engines.base import EngineError, VnfSpec
from headrace.engines.execution import MAX_OUTPUT, Executed, NotRunning
from headrace.engines.image import Capability
from headrace.engines.interface_container import InterfaceContainerEngine, ProgramSettings
from headrace.machine.processes import make_private, open_log

T = TypeVar("T")

GRAPH_SETTINGS = interfaces.GRAPH_SETTINGS | {"environment", "ready", "settings", "start_s"}
"""The keys of `DaemonSettings` that may come from a graph."""

_TIMEOUT_S, _PULL_S = 20, 600
_NODE_LABEL = "headrace.node"


class DaemonSettings(ProgramSettings):
    """`image` as the daemon knows it, or pulls it (`pull`), from the daemon at `daemon`.

    `start` is run in the container once it has its interfaces.
    """

    image: Annotated[str, Field(min_length=1, max_length=512)]
    daemon: Annotated[str, Field(pattern=r"^unix:///")] = "unix:///run/docker.sock"
    pull: Literal["missing", "always", "never"] = "missing"
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    start: tuple[str, ...] = ()
    environment: dict[str, str] = Field({})
    user: str | None = None
    directory: str | None = None
    capabilities: tuple[Capability, ...] = ()


class DaemonEngine(InterfaceContainerEngine[DaemonSettings]):
    """Containers of a daemon."""

    settings_model = DaemonSettings

    async def _ask(
        self, vnf: VnfSpec, work: Callable[[docker.DockerClient], T], timeout_s: int = _TIMEOUT_S
    ) -> T:
        """What `work` has from the daemon; it blocks, so it is in a thread."""
        place = self.settings(vnf).daemon
        return await asyncio.to_thread(_asked, place, partial(_named, vnf.vnf, work), timeout_s)

    async def _check_runtime(self, settings: DaemonSettings) -> None:
        """See InterfaceContainerEngine."""
        await asyncio.to_thread(_asked, settings.daemon, lambda client: client.ping())

    async def _create(self, vnf: VnfSpec, settings: DaemonSettings) -> tuple[int, Sequence[str]]:
        """See InterfaceContainerEngine: it runs already, without interfaces."""
        words = self._description(vnf, settings)
        return await self._ask(vnf, partial(_create, settings, words), _PULL_S)

    def _description(self, vnf: VnfSpec, settings: DaemonSettings) -> dict[str, Any]:
        """The container, in the words of the library."""
        limits = self._confinement.limits(vnf)
        place = self._settings_file(vnf).parent
        return {
            "image": settings.image,
            "name": vnf.name,
            "entrypoint": None if settings.entrypoint is None else list(settings.entrypoint),
            "command": None if settings.command is None else list(settings.command),
            "user": settings.user,
            "working_dir": settings.directory,
            "environment": {
                **settings.environment,
                **vnf.environment,
                **self._settings_variable(vnf),
                **self._supervisor.mark(self._process(vnf)),
            },
            "volumes": {str(place): {"bind": str(place), "mode": "ro"}},
            "network_mode": "none",
            "cap_drop": ["ALL"],
            "cap_add": [name.removeprefix("CAP_") for name in settings.capabilities],
            "security_opt": ["no-new-privileges"],
            "cpuset_cpus": ",".join(map(str, limits.cores)),
            "mem_limit": f"{limits.memory_mb}m",
            "pids_limit": limits.processes,
            "labels": {_NODE_LABEL: str(self._rundir), "headrace.vnf": f"{vnf.graph}/{vnf.vnf}"},
            "restart_policy": {"Name": ""},  # the node restarts, as the template says
            "detach": True,
        }

    async def _begin(self, vnf: VnfSpec, settings: DaemonSettings) -> None:
        """See InterfaceContainerEngine: by the command `start`."""
        if not settings.start:
            return
        done = await self.execute(vnf, settings.start, timeout_s=settings.start_s)
        if done.exit_code != 0:
            said = (done.stderr or done.stdout).decode(errors="replace").strip()[-500:]
            raise EngineError(f"VNF {vnf.vnf}: its start ended with {done.exit_code}: {said}")

    def _output(self, vnf: VnfSpec) -> str:
        """See InterfaceContainerEngine: also copied to the VNF's log."""
        place = self.settings(vnf).daemon
        said = _asked(place, lambda client: client.containers.get(vnf.name).logs())
        file = self._supervisor.log_of(self._process(vnf))
        make_private(file.parent)
        with open_log(file) as copy:
            copy.truncate(0)
            copy.write(said)
        return str(said.decode(errors="replace"))

    async def execute(
        self, vnf: VnfSpec, command: Sequence[str], stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Executed:
        """See Executor; the API of the daemon has no input for a command."""
        if self._supervisor.find(self._process(vnf)) is None:
            raise NotRunning(f"VNF {vnf.vnf}: it does not run")
        if stdin:
            raise EngineError(f"VNF {vnf.vnf}: a command in a container of a daemon has no input")
        work = self._ask(vnf, partial(_execute, vnf.name, command), int(timeout_s) + _TIMEOUT_S)
        try:
            return await asyncio.wait_for(work, timeout_s)
        except TimeoutError:
            # The daemon has no way to end a command; it ends with the container.
            return Executed(None, b"", b"", truncated=False)

    async def _delete(self, vnf: VnfSpec) -> None:
        """See InterfaceContainerEngine; where no daemon answers, there is nothing to remove."""
        try:
            await self._ask(vnf, lambda client: _remove(client, vnf.name))
        except EngineError:
            if self._supervisor.find(self._process(vnf)) is not None:
                raise


def _named(vnf: str, work: Callable[[docker.DockerClient], T], client: docker.DockerClient) -> T:
    try:
        return work(client)
    except (DockerException, RequestException) as error:
        said = error.explanation if isinstance(error, APIError) else str(error)
        raise EngineError(f"VNF {vnf}: {said}") from error


def _asked(place: str, work: Callable[[docker.DockerClient], T], timeout_s: int = _TIMEOUT_S) -> T:
    """Does `work` with a connection to the daemon.

    Raises:
        EngineError: no daemon answers; says what to do.
    """
    try:
        client = docker.DockerClient(base_url=place, version="auto", timeout=timeout_s)
    except (DockerException, RequestException) as error:
        text = f"no Docker or Podman answers at {place}: {error}"
        raise EngineError(f"{text}; start one, or use function image, which needs none") from error
    try:
        return work(client)
    except (DockerException, RequestException) as error:
        raise EngineError(f"{place}: {error}") from error
    finally:
        client.close()


def _create(
    settings: DaemonSettings, words: dict[str, Any], client: docker.DockerClient
) -> tuple[int, Sequence[str]]:
    """Makes a container and starts it, with its image; one of that name is removed before."""
    _remove(client, words["name"])
    if settings.pull == "always" or (settings.pull == "missing" and not _has(client, settings)):
        client.images.pull(*_repository(settings.image))
    container = client.containers.create(**words)
    try:
        container.start()
        container.reload()
    except (DockerException, RequestException):
        container.remove(force=True)
        raise
    state = container.attrs["State"]
    if not state.get("Pid"):
        said = container.logs().decode(errors="replace").strip()[-500:]
        container.remove(force=True)
        raise EngineError(f"{settings.image} ended at once with {state.get('ExitCode')}: {said}")
    return int(state["Pid"]), [container.attrs.get("Path", ""), *container.attrs.get("Args", [])]


def _has(client: docker.DockerClient, settings: DaemonSettings) -> bool:
    try:
        client.images.get(settings.image)
    except ImageNotFound:
        return False
    return True


def _repository(image: str) -> tuple[str, str | None]:
    """The image's name and its tag or digest; without one, `latest`."""
    if "@" in image:
        name, _, digest = image.partition("@")
        return name, digest
    head, _, last = image.rpartition("/")
    name, colon, tag = last.partition(":")
    return f"{head}/{name}" if head else name, tag if colon else "latest"


def _execute(name: str, command: Sequence[str], client: docker.DockerClient) -> Executed:
    code, (out, err) = client.containers.get(name).exec_run(list(command), demux=True)
    out, err = out or b"", err or b""
    truncated = max(len(out), len(err)) > MAX_OUTPUT
    return Executed(code, out[:MAX_OUTPUT], err[:MAX_OUTPUT], truncated)


def _remove(client: docker.DockerClient, name: str) -> None:
    try:
        client.containers.get(name).remove(force=True, v=True)
    except NotFound:
        return
