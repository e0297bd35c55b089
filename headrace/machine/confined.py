# SPDX-License-Identifier: Apache-2.0
"""Becomes a program as another user, in control groups, without a way back to privileges.

Run as a script, by its path: `python -I -S confined.py SETTINGS PROGRAM ARGUMENT...`; SETTINGS is
the JSON of `Confined`. It joins the groups, leaves the host's network, whose loopback has the
node's API, for one of its own, gives up root with its capabilities and further groups, makes sure
that no program that it starts can get them back (PR_SET_NO_NEW_PRIVS), and executes the program in
its place. It imports nothing of the package, which the interpreter does not see then.

With `waits_at` the network belongs to a user namespace of its own, in which it keeps the right to
configure it and to open packet sockets. It reads from that descriptor until whoever has started it
has mapped its user there, put interfaces into the network, and written an octet.

With `joins` it goes into the namespaces of that process instead, which was started so.
"""

import ctypes
import errno
import json
import os
import resource
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

_PR_SET_NO_NEW_PRIVS = 38  # prctl(2)
_PR_SET_KEEPCAPS, _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE = 8, 47, 2
_CLONE_NEWIPC, _CLONE_NEWNET, _CLONE_NEWUSER = 0x0800_0000, 0x4000_0000, 0x1000_0000  # unshare(2)
_CAPABILITY_VERSION = 0x2008_0522  # capset(2)
_NET_CAPABILITIES = (12, 13)  # CAP_NET_ADMIN, CAP_NET_RAW


@dataclass(frozen=True)
class Confined:
    """The user, the groups beside their own, and the control groups' files to join by.

    It may lock `locked_mb` of memory, or what the node may.
    """

    user: int
    groups: tuple[int, ...] = ()
    process_files: tuple[str, ...] = ()
    waits_at: int | None = None
    locked_mb: int = 0
    joins: int | None = None

    def command(self) -> list[str]:
        """What to put before the command that is to be run so."""
        return [sys.executable, "-I", "-S", str(Path(__file__)), json.dumps(asdict(self))]


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments) != 0:
        raise OSError(ctypes.get_errno(), name)


def _join(pid: int) -> bool:
    """Goes into the namespaces of a process; whether its network is that of its user namespace."""
    place = f"/proc/{pid}/ns"
    has_own = os.readlink(f"{place}/user") != os.readlink("/proc/self/ns/user")
    # All are opened before the first is joined, after which there is no right to.
    names = (*(("user",) if has_own else ()), "net", "ipc")
    files = [os.open(f"{place}/{name}", os.O_RDONLY) for name in names]
    for file in files:
        _call("setns", file, 0)
        os.close(file)
    return has_own


def _keep(capabilities: Sequence[int]) -> None:
    """Gives up all capabilities but these, which stay over the execution of a program, too."""
    mask = sum(1 << number for number in capabilities)  # all are below 32
    head = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    sets = (ctypes.c_uint32 * 6)(mask, mask, mask)  # effective, permitted, inheritable
    _call("capset", head, sets)
    for number in capabilities:
        _call("prctl", _PR_CAP_AMBIENT, _PR_CAP_AMBIENT_RAISE, number, 0, 0)


def main(settings: str, argv: list[str]) -> None:
    """Does all this; returns only by an exception."""
    values = json.loads(settings)
    for file in values["process_files"]:
        with open(file, "w") as joined:
            joined.write("0")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if values["locked_mb"]:
        octets = values["locked_mb"] << 20
        resource.setrlimit(resource.RLIMIT_MEMLOCK, (octets, octets))
    os.umask(0o077)
    os.setgroups(values["groups"])
    waits_at = values["waits_at"]
    has_own_network = waits_at is not None
    if values["joins"] is not None:
        has_own_network = _join(values["joins"])
    else:
        owner = _CLONE_NEWUSER if has_own_network else 0
        _call("unshare", _CLONE_NEWNET | _CLONE_NEWIPC | owner)
    if waits_at is not None:
        if os.read(waits_at, 1) == b"":
            raise OSError(errno.EPIPE, "the node has ended meanwhile")
        os.close(waits_at)
    if has_own_network:
        _call("prctl", _PR_SET_KEEPCAPS, 1, 0, 0, 0)  # over the change of the user
    os.setresgid(values["user"], values["user"], values["user"])
    os.setresuid(values["user"], values["user"], values["user"])
    if has_own_network:
        _keep(_NET_CAPABILITIES)
    _call("prctl", _PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    os.environ.pop("LC_CTYPE", None)  # the interpreter adds it at its start
    os.execvp(argv[0], argv)  # noqa: S606  (a program and its arguments, without a shell)


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except OSError as error:
        sys.exit(f"{sys.argv[2]}: {error}")
