# SPDX-License-Identifier: Apache-2.0
"""A container as an OCI bundle (opencontainers/runtime-spec 1.0), made from this machine's files.

There is no image: the container sees the host's programs and libraries, read-only, and of all else
only what it is given. It has no capabilities, no network (packets go through its ports' shared
memory), no other processes in sight, one set of CPUs and a limit of memory.
"""

import json
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_SYSTEM_LINKS = ("bin", "sbin", "lib", "lib64")
_NAMESPACES = ("pid", "ipc", "uts", "mount", "network")
_HIDDEN = ("/proc/kcore", "/proc/keys", "/proc/timer_list", "/sys/firmware")
_READ_ONLY = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")


@dataclass(frozen=True)
class Container:
    """What runs, what it sees, and what it may use. Paths are the same inside and outside."""

    name: str
    argv: list[str]
    environment: dict[str, str]
    cores: tuple[int, ...]
    memory_mb: int
    readable: tuple[Path, ...] = ()
    writable: tuple[Path, ...] = field(default=())


def make_bundle(container: Container, directory: Path) -> None:
    """Writes the bundle: `config.json` and a root of mount points."""
    shutil.rmtree(directory, ignore_errors=True)
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
    (directory / "config.json").write_text(json.dumps(configuration(container), indent=2))


def configuration(container: Container) -> dict[str, Any]:
    """The bundle's config.json."""
    system = [Path("/usr"), *_unlinked_system_directories()]
    nothing: dict[str, list[str]] = {
        kind: [] for kind in ("bounding", "effective", "inheritable", "permitted", "ambient")
    }
    return {
        "ociVersion": "1.0.2",
        "hostname": "vnf",
        "root": {"path": "rootfs", "readonly": True},
        "process": {
            "terminal": False,
            "user": {"uid": 0, "gid": 0},
            "args": container.argv,
            "env": [f"{key}={value}" for key, value in container.environment.items()],
            "cwd": "/",
            "capabilities": nothing,
            "noNewPrivileges": True,
        },
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            _tmpfs("/dev", "mode=755"),  # with the few devices that runc makes: null, zero, random
            _tmpfs("/run", "mode=755", "nodev"),
            _tmpfs("/tmp", "mode=1777", "nodev"),  # noqa: S108  (a mount point of the container's own)
            _bind(Path("/sys"), "ro"),
            *(_bind(path, "ro") for path in (*system, *container.readable)),
            *(_bind(path, "rw") for path in container.writable),
        ],
        "linux": {
            "namespaces": [{"type": kind} for kind in _NAMESPACES],
            "cgroupsPath": f"/headrace-{container.name}",
            "resources": {
                "devices": [{"allow": False, "access": "rwm"}],
                "cpu": {"cpus": ",".join(map(str, container.cores))} if container.cores else {},
                "memory": {"limit": container.memory_mb << 20},
                "pids": {"limit": 64},
            },
            "maskedPaths": list(_HIDDEN),
            "readonlyPaths": list(_READ_ONLY),
        },
    }


def _unlinked_system_directories() -> list[Path]:
    """/bin and the like where they are directories of their own, not links into /usr."""
    paths = [Path("/") / name for name in _SYSTEM_LINKS]
    return [path for path in paths if path.is_dir() and not path.is_symlink()]


def _tmpfs(destination: str, *options: str) -> dict[str, Any]:
    words = ["nosuid", "size=16m", *options]
    return {"destination": destination, "type": "tmpfs", "source": "tmpfs", "options": words}


def _bind(path: Path, how: str) -> dict[str, Any]:
    options = ["rbind", "nosuid", "nodev", how]
    return {"destination": str(path), "type": "none", "source": str(path), "options": options}
