# SPDX-License-Identifier: Apache-2.0
"""A Debian kernel for guests: its image, and its modules in the order in which they load."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

_DEPENDS = re.compile(rb"\0depends=([^\0]*)\0")


@dataclass(frozen=True)
class GuestKernel:
    """A kernel's image and the directory of its modules."""

    image: Path
    modules: Path

    def load_order(self, *names: str) -> list[Path]:
        """The files of the modules `names` and of all that they need, dependencies first."""
        files = {path.stem.replace("-", "_"): path for path in self.modules.rglob("*.ko")}
        ordered: list[Path] = []

        def add(name: str) -> None:
            path = files[name.replace("-", "_")]
            if path in ordered:
                return
            found = _DEPENDS.search(path.read_bytes())
            for needed in (found[1].decode() if found else "").split(","):
                if needed:
                    add(needed)
            ordered.append(path)

        for name in names:
            add(name)
        return ordered


def find_kernel() -> GuestKernel | None:
    """What `make setup` unpacked, else a Debian kernel that this machine has; None without any.

    $HEADRACE_GUEST names a directory with `boot` and `lib/modules` to be used instead.
    """
    for root in (Path(os.environ.get("HEADRACE_GUEST", ROOT / ".guest")), Path("/")):
        found = kernel_in(root)
        if found is not None:
            return found
    return None


def kernel_in(root: Path) -> GuestKernel | None:
    """The newest Debian kernel of a directory with `boot` and `lib/modules`; None without any."""
    for image in sorted(root.glob("boot/vmlinuz-*-amd64"), reverse=True):
        modules = root / "lib" / "modules" / image.name.removeprefix("vmlinuz-")
        if modules.is_dir():
            return GuestKernel(image, modules)
    return None
