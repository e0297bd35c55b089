# SPDX-License-Identifier: Apache-2.0
"""The environment variables of a VNF: which names and values there may be, and who may set them.

A template gives variables, and names those that a graph may set. What leads the dynamic linker, the
C library or a shell to other files is never a graph's: a process sees the host's.
"""

import re
from collections.abc import Mapping

MAX_VARIABLES, MAX_NAME, MAX_VALUE = 64, 128, 4096

_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}")
_OWN_PREFIX = "HEADRACE_"
_OWN = frozenset({"XDG_RUNTIME_DIR"})
_NEVER_A_GRAPHS = frozenset(
    {"PATH", "ENV", "BASH_ENV", "IFS", "HOME", "GCONV_PATH", "LOCPATH", "NLSPATH", "TMPDIR"}
)
_NEVER_PREFIXES = ("LD_", "GLIBC_", "MALLOC_", "PYTHON", "PERL", "BASH_FUNC_")

ANY = "environment"
"""The entry of `graph-may-set` that lets a graph set any variable; `environment.NAME`: this one."""


def fault_of(variables: Mapping[str, str]) -> str | None:
    """What is wrong with the variables of a template or a graph; None: nothing."""
    if len(variables) > MAX_VARIABLES:
        return f"{len(variables)} variables; there may be {MAX_VARIABLES}"
    for name, value in variables.items():
        if not _NAME.fullmatch(name):
            return f"{name[:40]!r} is no variable's name"
        if name in _OWN or name.startswith(_OWN_PREFIX):
            return f"{name} is the node's own"
        if len(value) > MAX_VALUE or "\0" in value:
            return f"the value of {name} has more than {MAX_VALUE} characters, or a NUL"
    return None


def may_set(name: str, allowed: tuple[str, ...]) -> bool:
    """Whether a graph may set the variable, by its template's `graph-may-set`."""
    if name in _NEVER_A_GRAPHS or name.startswith(_NEVER_PREFIXES):
        return False
    return ANY in allowed or f"{ANY}.{name}" in allowed
