# SPDX-License-Identifier: Apache-2.0
"""Function `image` of the engine `container`: containers from OCI images, with kernel interfaces.

The image is a directory or an archive of the host or of a registry (images/sources.py), unpacked
once (images/cache.py) and mounted for each VNF (images/mounts.py). Its users are the VNF's own.
What its program changes is kept in memory, bounded, and gone when the VNF ends.
"""

import re
from pathlib import Path, PurePosixPath
from typing import Annotated, Literal

from pydantic import Field, field_validator

from headrace.engines import interfaces
from headrace.engines.base import EngineError, VnfSpec
from headrace.engines.confinement import Confinement
from headrace.engines.images import ImageError
from headrace.engines.images.cache import ImageCache, Unpacked
from headrace.engines.images.layers import MAX_ID, within
from headrace.engines.images.model import Defaults
from headrace.engines.images.mounts import Shift, mount_image, unmount
from headrace.engines.images.registry import reference
from headrace.engines.images.sources import REGISTRY
from headrace.engines.interface_container import InterfaceContainerEngine, ProgramSettings
from headrace.engines.oci import Container, ImageRoot, make_bundle, prepare_for_image
from headrace.machine.processes import Supervisor

Capability = Literal[
    "CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_KILL"
]

GRAPH_SETTINGS = interfaces.GRAPH_SETTINGS | {
    "command",
    "environment",
    "ready",
    "settings",
    "start_s",
}
"""The keys of `ImageSettings` that may come from a graph: the others name files of the host."""

# $1 is the script: it sets things up and ends, or is the server itself.
_STARTED = (
    "trap 'exit 0' TERM; "
    'if [ -x "$1" ]; then "$1"; else sh "$1"; fi || exit; '
    "while :; do sleep 1000 & wait; done"
)
_PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_MAX_ACCOUNTS = 1 << 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class ImageSettings(ProgramSettings):
    """`image`: a path, or `docker://HOST[:PORT]/NAME[:TAG][@DIGEST]`; `tag`: of several, one.

    `entrypoint`, `command`, `user`, `directory` and `environment` take the place of, or are added
    to, what the image says (its Entrypoint, Cmd, User, WorkingDir and Env). `start`: a file of the
    image that, if it is there, is run in place of all; what it has set up stays when it has ended
    with 0.
    """

    image: str
    tag: str | None = None
    entrypoint: tuple[str, ...] | None = None
    command: tuple[str, ...] | None = None
    start: str | None = None
    environment: dict[str, str] = Field({})
    user: str | None = None
    directory: str | None = None
    capabilities: tuple[Capability, ...] = ()
    writable_mb: Annotated[int, Field(ge=1, le=65536)] = 64

    @field_validator("image")
    @classmethod
    def _is_a_place(cls, text: str) -> str:
        if text.startswith(REGISTRY):
            try:
                reference(text)
            except ImageError as error:
                raise ValueError(str(error)) from None
        elif not Path(text).is_absolute():
            raise ValueError(f"give an absolute path or {REGISTRY}...")
        return text

    @field_validator("environment")
    @classmethod
    def _are_variables(cls, environment: dict[str, str]) -> dict[str, str]:
        for name in environment:
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no variable's name")
        return environment


class ImageEngine(InterfaceContainerEngine[ImageSettings]):
    """Containers from images."""

    settings_model = ImageSettings

    def __init__(
        self,
        rundir: Path,
        prefix: str,
        supervisor: Supervisor,
        confinement: Confinement,
        images: Path,
    ) -> None:
        super().__init__(rundir, prefix, supervisor, confinement)
        self._cache = ImageCache(images)

    def _prepare(self, vnf: VnfSpec, settings: ImageSettings, bundle: Path) -> Container:
        """See InterfaceContainerEngine."""
        if vnf.user is None or vnf.group is None or vnf.node_group is None:
            raise EngineError(f"VNF {vnf.vnf}: a container needs a user and groups of its own")
        try:
            image = self._cache.get(settings.image, settings.tag)
            defaults = image.configuration.config
            user, group = account(image, settings.user or defaults.user)
            prepare_for_image(bundle, vnf.user, vnf.node_group)
            shift = Shift(vnf.user)
            rootfs = mount_image(image.rootfs, bundle, shift, settings.writable_mb)
        except ImageError as error:
            raise EngineError(f"VNF {vnf.vnf}: {settings.image}: {error}") from error
        container = Container(
            name=vnf.name,
            argv=arguments(vnf, settings, defaults, image),
            environment={
                **environment(settings, defaults),
                **vnf.environment,
                **self._settings_variable(vnf),
                **self._supervisor.mark(self._process(vnf)),
            },
            limits=self._confinement.limits(vnf),
            cgroup=f"/{self._confinement.group(vnf)}",
            user=vnf.user,
            group=vnf.group,
            node_group=vnf.node_group,
            readable=(self._settings_file(vnf).parent,),
            image=ImageRoot(rootfs, shift, user, group),
            capabilities=settings.capabilities,
            directory=settings.directory or defaults.workdir or "/",
        )
        make_bundle(container, bundle)
        return container

    def _clean(self, vnf: VnfSpec) -> None:
        """See InterfaceContainerEngine."""
        remove_bundle(self._bundle(vnf))


def remove_bundle(bundle: Path) -> None:
    """Removes a bundle; what is mounted in it is unmounted before."""
    unmount(bundle)
    for name in ("image", "changes", "rootfs"):
        place = bundle / name
        if place.is_dir():
            place.rmdir()  # fails rather than removes what is still mounted
    for name in ("config.json", "pid"):
        (bundle / name).unlink(missing_ok=True)
    if bundle.is_dir():
        bundle.rmdir()


def arguments(
    vnf: VnfSpec, settings: ImageSettings, defaults: Defaults, image: Unpacked
) -> list[str]:
    """What is run: the entrypoint and after it the command, each the template's or the image's.

    As with Docker, an entrypoint of the template's makes the image's command void. A start script
    of the image's goes before all of them.

    Raises:
        EngineError: there is nothing to run.
    """
    if settings.start is not None and settings.command is None:
        script = within(image.rootfs, list(PurePosixPath(settings.start).parts))
        if script.is_file():
            return ["/bin/sh", "-c", _STARTED, "sh", settings.start]
    entrypoint = defaults.entrypoint if settings.entrypoint is None else settings.entrypoint
    command = settings.command
    if command is None:
        command = defaults.cmd if settings.entrypoint is None else ()
    if not entrypoint and not command:
        text = "the image says no command; give `command`"
        raise EngineError(f"VNF {vnf.vnf}: {settings.image}: {text}")
    return [*entrypoint, *command]


def environment(settings: ImageSettings, defaults: Defaults) -> dict[str, str]:
    """The variables of the image, and over them those of the template or graph."""
    pairs = (entry.partition("=") for entry in (_PATH, *defaults.env))
    named = {name: value for name, _, value in pairs if _NAME.fullmatch(name)}
    return {**named, **settings.environment}


def account(image: Unpacked, text: str) -> tuple[int, int]:
    """The ids of `USER[:GROUP]`, names or numbers, by the image's own /etc/passwd and /etc/group.

    Raises:
        ImageError: it knows no such user or group.
    """
    name, _, group_name = text.partition(":")
    user, group = 0, 0
    if name:
        row = _row(image, "passwd", name)
        if row is None and not name.isdigit():
            raise ImageError(f"the image has no user {name!r}")
        user, group = (_id(row[2]), _id(row[3])) if row else (_id(name), 0)
    if group_name:
        row = _row(image, "group", group_name)
        if row is None and not group_name.isdigit():
            raise ImageError(f"the image has no group {group_name!r}")
        group = _id(row[2]) if row else _id(group_name)
    return user, group


def _row(image: Unpacked, file: str, wanted: str) -> list[str] | None:
    path = within(image.rootfs, ["etc", file])
    if not path.is_file():
        return None
    with path.open(errors="replace") as rows:
        for line in rows.read(_MAX_ACCOUNTS).splitlines():
            fields = line.split(":")
            if len(fields) >= (4 if file == "passwd" else 3) and wanted in (fields[0], fields[2]):
                return fields
    return None


def _id(text: str) -> int:
    if not text.isdigit() or not 0 <= int(text) < MAX_ID:
        raise ImageError(f"{text!r} is no user or group below {MAX_ID}")
    return int(text)
