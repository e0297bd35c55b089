# SPDX-License-Identifier: Apache-2.0
"""Becomes a program as another user, in control groups, without a way back to privileges.

Run as a script, by its path: `python -I -S confined.py SETTINGS PROGRAM ARGUMENT...`; SETTINGS is
the JSON of `Confined`. It joins the groups, leaves the host's network, whose loopback has the
node's API, for an empty one, gives up root with its capabilities and further groups, makes sure
that no program that it starts can get them back (PR_SET_NO_NEW_PRIVS), and executes the program in
its place. It imports nothing of the package, which the interpreter does not see then.
"""

import ctypes
import json
import os
import resource
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

_PR_SET_NO_NEW_PRIVS = 38  # prctl(2)
_CLONE_NEWIPC, _CLONE_NEWNET = 0x0800_0000, 0x4000_0000  # unshare(2)


@dataclass(frozen=True)
class Confined:
    """The user, the groups beside their own, and the control groups' files to join by."""

    user: int
    groups: tuple[int, ...] = ()
    process_files: tuple[str, ...] = ()

    def command(self) -> list[str]:
        """What to put before the command that is to be run so."""
        return [sys.executable, "-I", "-S", str(Path(__file__)), json.dumps(asdict(self))]


def main(settings: str, argv: list[str]) -> None:
    """Does all this; returns only by an exception."""
    values = json.loads(settings)
    for file in values["process_files"]:
        with open(file, "w") as joined:
            joined.write("0")
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET | _CLONE_NEWIPC) != 0:
        raise OSError(ctypes.get_errno(), "unshare")
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.umask(0o077)
    os.setgroups(values["groups"])
    os.setresgid(values["user"], values["user"], values["user"])
    os.setresuid(values["user"], values["user"], values["user"])
    if libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "PR_SET_NO_NEW_PRIVS")
    os.environ.pop("LC_CTYPE", None)  # the interpreter adds it at its start
    os.execv(argv[0], argv)  # noqa: S606  (a program and its arguments, without a shell)


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2:])
    except OSError as error:
        sys.exit(f"{sys.argv[2]}: {error}")
