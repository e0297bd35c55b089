# SPDX-License-Identifier: Apache-2.0
"""Docker's own daemon, with a directory, a socket and images of its own, and no network."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import docker
import pytest
from docker.errors import DockerException
from requests.exceptions import RequestException

from tests.docs.pages import ROOT
from tests.guest.images import Image
from tests.support.daemon import Daemon

UNPACKED = ROOT / ".docker/usr"
"""Where `make setup` unpacks Debian's packages: this machine is not to run the daemon itself."""
_START_S = 60.0


def _programs() -> str | None:
    """The PATH with dockerd and what it calls; None without it."""
    path = os.pathsep.join([str(UNPACKED / "sbin"), str(UNPACKED / "bin"), os.environ["PATH"]])
    programs = ("dockerd", "containerd", "runc")
    return path if all(shutil.which(name, path=path) for name in programs) else None


@contextmanager
def running(place: Path, images: dict[str, Image]) -> Iterator[str]:
    """The address of a daemon that has these images by their tags; it leaves nothing.

    It has a mount namespace of its own, so that its mounts go with it.
    """
    path = _programs()
    if path is None:
        pytest.skip("Docker's daemon is not here (make setup unpacks Debian's docker.io)")
    place.mkdir()
    socket, group = place / "docker.sock", f"/headrace-test-{os.getpid()}"
    command = [
        "unshare", "--mount", "--propagation", "private", "env", f"PATH={path}", "dockerd",
        f"--host=unix://{socket}", "--storage-driver=vfs", "--bridge=none", "--iptables=false",
        "--ip6tables=false", f"--data-root={place / 'data'}", f"--exec-root={place / 'exec'}",
        f"--pidfile={place / 'pid'}", f"--cgroup-parent={group}",
    ]  # fmt: skip
    with ExitStack() as stack:
        stack.callback(_remove_groups, group)
        daemon = Daemon(command, place / "dockerd.log")
        stack.callback(daemon.stop)
        daemon.wait_until(lambda: _answers(socket), _START_S)
        with closing(docker.DockerClient(base_url=f"unix://{socket}")) as client:
            for tag, image in images.items():
                file = place / "image.tar"
                client.images.load(image.write(file, "docker-archive", tag).read_bytes())
        yield f"unix://{socket}"


def _answers(socket: Path) -> bool:
    try:
        with closing(docker.DockerClient(base_url=f"unix://{socket}")) as client:
            return bool(client.ping())
    except (DockerException, RequestException):
        return False


def _remove_groups(name: str) -> None:
    """Removes the control groups that the daemon has made for its containers."""
    for place in (Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").iterdir()):
        with suppress(OSError):
            (place / name.strip("/")).rmdir()


def containers(address: str) -> list[str]:
    """The names of all containers that the daemon has."""
    with closing(docker.DockerClient(base_url=address)) as client:
        return [str(one.name) for one in client.containers.list(all=True)]
