# SPDX-License-Identifier: Apache-2.0
"""A container as an OCI bundle (runtime-spec 1.0), of this machine's files or of an image.

Without an image the container sees the host's programs and libraries, read-only, and of all else
only what it is given. It has no capabilities unless it is given some, which are valid for what its
own namespaces have; no network but what is moved there, no other processes in sight, one set of
CPUs and a limit of memory.

It is root in a user namespace of its own: root is the VNF's user on the host, and in the groups of
the node (by which alone it gets at its root directory), of its graph and of its own. An image's
further users are those of `Shift` (images/mounts.py). /sys is a new
sysfs of its own network namespace, read-only, without the control groups that the host has mounted
there. `seccomp.py` says which system calls it may make.
"""

import json
import os
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headrace.engines.images.mounts import IDS, Shift
from headrace.engines.seccomp import profile
from headrace.machine.cgroups import Limits

_SYSTEM_LINKS = ("bin", "sbin", "lib", "lib64")
_NAMESPACES = ("pid", "ipc", "uts", "mount", "network", "user")
_GRAPH_GROUP, _OWN_GROUP = 1, 2
_HIDDEN = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware")
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


CAPABILITIES = ("CAP_NET_ADMIN", "CAP_NET_RAW", "CAP_SETUID", "CAP_SETGID", "CAP_CHOWN", "CAP_KILL")
"""What a container may be given: each for its own network, its own users and its own processes."""


@dataclass(frozen=True)
class ImageRoot:
    """An image that is mounted already, and whom of its users and groups the program runs as."""

    rootfs: Path
    shift: Shift
    user: int = 0
    group: int = 0


@dataclass(frozen=True)
class Container:
    """What runs, what it sees, and what it may use. Paths are the same inside and outside.

    `user` (also a group's id), `group` and `node_group` are ids of the host. It may lock
    `locked_mb` of memory, or what the node may.
    """

    name: str
    argv: list[str]
    environment: dict[str, str]
    limits: Limits
    cgroup: str
    user: int
    group: int
    node_group: int
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = field(default=())
    image: ImageRoot | None = None
    capabilities: tuple[str, ...] = ()
    directory: str = "/"
    locked_mb: int = 0


def make_bundle(container: Container, directory: Path) -> None:
    """Writes the bundle: `config.json` and, without an image, a root of mount points."""
    if container.image is None:
        shutil.rmtree(directory, ignore_errors=True)
        _make_root(container, directory)
    (directory / "config.json").write_text(json.dumps(configuration(container), indent=2))


def prepare_for_image(directory: Path, user: int, node_group: int) -> None:
    """Makes the directory of a bundle into which an image is mounted: its user alone may pass."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for passed, owner, group, mode in (
        (directory.parent, 0, node_group, 0o710),
        (directory, user, 0, 0o500),
    ):
        os.chown(passed, owner, group)
        passed.chmod(mode)


def _make_root(container: Container, directory: Path) -> None:
    root = directory / "rootfs"
    root.mkdir(parents=True)
    for name in _SYSTEM_LINKS:
        host = Path("/") / name
        if host.is_symlink():
            (root / name).symlink_to(host.readlink())
    for name in ("usr", "proc", "sys", "dev", "run", "tmp", "var"):
        (root / name).mkdir()
    (root / "var" / "run").symlink_to("/run")
    for path in (*_unlinked_system_directories(), *container.readable, *container.writable):
        inside = root / path.relative_to("/")
        if path.is_dir():
            inside.mkdir(parents=True, exist_ok=True)
        else:
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.touch()
    # The node's umask leaves them to root alone, but the container's user passes them on the way
    # to what is mounted below. Who may enter the root at all stands on the root.
    for point in root.rglob("*"):
        if point.is_dir() and not point.is_symlink():
            point.chmod(0o755)
    for passed in (directory.parent, directory, root):
        os.chown(passed, 0, container.node_group)
        passed.chmod(0o750 if passed == root else 0o710)


def configuration(container: Container) -> dict[str, Any]:
    """The bundle's config.json."""
    image = container.image
    system = [] if image else [Path("/usr"), *_unlinked_system_directories()]
    kinds = ("bounding", "effective", "inheritable", "permitted", "ambient")
    return {
        "ociVersion": "1.0.2",
        "hostname": "vnf",
        "root": {"path": str(image.rootfs) if image else "rootfs", "readonly": image is None},
        "process": {
            "terminal": False,
            "user": _image_user(image)
            if image
            else {
                "uid": 0,
                "gid": 0,
                "additionalGids": [_GRAPH_GROUP, _OWN_GROUP],
                "umask": 0o077,
            },
            "args": container.argv,
            "env": [f"{key}={value}" for key, value in container.environment.items()],
            "cwd": container.directory,
            "capabilities": {kind: list(container.capabilities) for kind in kinds},
            "noNewPrivileges": True,
            "rlimits": [{"type": "RLIMIT_CORE", "hard": 0, "soft": 0}, *_locked(container)],
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            _tmpfs("/dev", "mode=755"),  # with the few devices that runc makes: null, zero, random
            *(() if image else _HOST_TMPFS),
            {
                "destination": "/sys",
                "type": "sysfs",
                "source": "sysfs",
                "options": ["nosuid", "noexec", "nodev", "ro"],
            },
            *(_bind(path, "ro") for path in (*system, *container.readable)),
            *(_bind(path, "rw") for path in container.writable),
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in _NAMESPACES],
            **(_image_mappings(container, image.shift) if image else _mappings(container)),
            "cgroupsPath": container.cgroup,
            "resources": _resources(container.limits),
            "seccomp": profile(packets="CAP_NET_RAW" in container.capabilities),
            "maskedPaths": list(_HIDDEN),
            "readonlyPaths": list(_READ_ONLY),
        },
    }


def _locked(container: Container) -> list[dict[str, Any]]:
    octets = container.locked_mb << 20
    return [{"type": "RLIMIT_MEMLOCK", "hard": octets, "soft": octets}] if octets else []


def _mappings(container: Container) -> dict[str, Any]:
    return {
        "uidMappings": [_identity(0, container.user)],
        "gidMappings": [
            _identity(0, container.node_group),
            _identity(_GRAPH_GROUP, container.group),
            _identity(_OWN_GROUP, container.user),
        ],
    }


def _image_mappings(container: Container, shift: Shift) -> dict[str, Any]:
    """The same as the mount of the image has, but that root's first group is the node's.

    The files of the image's group 0 are those of its last group, in which root is.
    """
    last = IDS - 1
    return {
        "uidMappings": [_identity(0, shift.user), _identity(1, shift.base + 1, IDS - 1)],
        "gidMappings": [
            _identity(0, container.node_group),
            _identity(1, shift.base + 1, IDS - 2),
            _identity(last, shift.user),
        ],
    }


def _image_user(image: ImageRoot) -> dict[str, Any]:
    root = {"additionalGids": [IDS - 1]} if image.group == 0 else {}
    return {"uid": image.user, "gid": image.group, "umask": 0o022, **root}


def _identity(inside: int, outside: int, size: int = 1) -> dict[str, int]:
    return {"containerID": inside, "hostID": outside, "size": size}


def _resources(limits: Limits) -> dict[str, Any]:
    resources: dict[str, Any] = {"devices": [{"allow": False, "access": "rwm"}]}
    if limits.cores:
        resources["cpu"] = {"cpus": ",".join(map(str, limits.cores))}
    if limits.memory_mb is not None:
        resources["memory"] = {"limit": limits.memory_mb << 20}
    if limits.processes is not None:
        resources["pids"] = {"limit": limits.processes}
    return resources


def _unlinked_system_directories() -> list[Path]:
    """/bin and the like where they are directories of their own, not links into /usr."""
    paths = [Path("/") / name for name in _SYSTEM_LINKS]
    return [path for path in paths if path.is_dir() and not path.is_symlink()]


def _tmpfs(destination: str, *options: str) -> dict[str, Any]:
    words = ["nosuid", "size=16m", *options]
    return {"destination": destination, "type": "tmpfs", "source": "tmpfs", "options": words}


_HOST_TMPFS = (
    _tmpfs("/run", "mode=755", "nodev"),
    _tmpfs("/tmp", "mode=1777", "nodev"),  # noqa: S108  (a mount point of the container's own)
)


def _bind(path: Path, how: str) -> dict[str, Any]:
    options = ["rbind", "nosuid", "nodev", how]
    return {"destination": str(path), "type": "none", "source": str(path), "options": options}
