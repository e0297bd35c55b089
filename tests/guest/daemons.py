# SPDX-License-Identifier: Apache-2.0
"""Docker's own daemon, and Podman, each with a directory, a socket and images of its own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException
from requests.exceptions import RequestException

from tests.docs.pages import ROOT
from tests.guest.images import Image
from tests.support.daemon import Daemon

UNPACKED = ROOT / ".daemons"
"""Where `make setup` unpacks Debian's packages: this machine is not to run them itself."""
_START_S = 60.0


def docker_command(place: Path, socket: Path) -> list[str]:
    """Docker's daemon, which starts containerd."""
    return [
        "dockerd", f"--host=unix://{socket}", "--storage-driver=vfs", "--bridge=none",
        "--iptables=false", "--ip6tables=false", f"--data-root={place / 'data'}",
        f"--exec-root={place / 'exec'}", f"--pidfile={place / 'pid'}",
        f"--cgroup-parent={_group()}",
    ]  # fmt: skip


def podman_command(place: Path, socket: Path) -> list[str]:
    """Podman's service of Docker's API, with configuration files of its own."""
    engine, policy = place / "containers.conf", place / ".config/containers/policy.json"
    engine.write_text(
        f"""
[engine]
conmon_path = ["{UNPACKED / "usr/bin/conmon"}"]
helper_binaries_dir = ["{UNPACKED / "usr/lib/podman"}"]
cgroup_manager = "cgroupfs"
events_logger = "file"
exit_command_delay = 0
runtime = "runc"
[network]
network_backend = "netavark"
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
"""
    )
    policy.parent.mkdir(parents=True)
    shutil.copy(UNPACKED / "etc/containers/policy.json", policy)
    libraries = ":".join(str(UNPACKED / part) for part in ("usr/lib", "lib"))
    libraries += "".join(f":{path}" for path in UNPACKED.glob("**/*-linux-gnu"))
    return [
        f"HOME={place}", f"LD_LIBRARY_PATH={libraries}", f"CONTAINERS_CONF={engine}", "podman",
        f"--root={place / 'data'}", f"--runroot={place / 'exec'}", "--storage-driver=vfs",
        "system", "service", "--time=0", f"unix://{socket}",
    ]  # fmt: skip


DAEMONS: dict[str, Callable[[Path, Path], list[str]]] = {
    "dockerd": docker_command,
    "podman": podman_command,
}


@contextmanager
def running(name: str, place: Path, images: dict[str, Image]) -> Iterator[str]:
    """The address of a daemon that has these images by their tags; it leaves nothing.

    It has a mount namespace of its own, so that its mounts go with it.
    """
    path = os.pathsep.join(
        [str(UNPACKED / "usr/sbin"), str(UNPACKED / "usr/bin"), os.environ["PATH"]]
    )
    for program in (name, "runc"):
        if shutil.which(program, path=path) is None:
            pytest.skip(f"{program} is not here (make setup unpacks Debian's packages)")
    place.mkdir()
    socket = place / "api.sock"
    command = ["unshare", "--mount", "--propagation", "private", "env", f"PATH={path}"]
    with ExitStack() as stack:
        stack.callback(_remove_groups)
        daemon = Daemon([*command, *DAEMONS[name](place, socket)], place / "log")
        stack.callback(daemon.stop)
        daemon.wait_until(lambda: _answers(socket), _START_S)
        with closing(docker.DockerClient(base_url=f"unix://{socket}")) as client:
            for tag, image in images.items():
                file = place / "image.tar"
                client.images.load(image.write(file, "docker-archive", tag).read_bytes())
        yield f"unix://{socket}"


def _group() -> str:
    return f"/headrace-test-{os.getpid()}"


def _answers(socket: Path) -> bool:
    try:
        with closing(docker.DockerClient(base_url=f"unix://{socket}")) as client:
            return bool(client.ping())
    except (DockerException, RequestException):
        return False


def _remove_groups() -> None:
    """Removes the control groups that the daemon has made for its containers, if they are empty."""
    for place in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()):
        for name in (_group().strip("/"), "libpod_parent/conmon", "libpod_parent"):
            with suppress(OSError):
                (place / name).rmdir()


def containers(address: str) -> list[str]:
    """The names of all containers that the daemon has."""
    with closing(docker.DockerClient(base_url=address)) as client:
        return [str(one.name) for one in client.containers.list(all=True)]
