# SPDX-License-Identifier: Apache-2.0
"""Finds the C++ programs: in the checkout's build, else on the PATH."""

import os
import shutil
from pathlib import Path

_BUILD = Path(__file__).resolve().parent.parent.parent / "build" / "dataplane" / "apps"


class ProgramMissing(Exception):
    """A program has not been built; the text says how to get it."""


def find_program(name: str) -> Path:
    """The path of one of the C++ programs, such as `headrace-switch`.

    Looked for in $HEADRACE_BUILD, in build/dataplane/apps of the checkout, and on the PATH.

    Raises:
        ProgramMissing: it is in none of them.
    """
    places = [_BUILD / name]
    if "HEADRACE_BUILD" in os.environ:
        places.insert(0, Path(os.environ["HEADRACE_BUILD"]) / name)
    for place in places:
        if os.access(place, os.X_OK) and place.is_file():
            return place
    found = shutil.which(name)
    if found is None:
        raise ProgramMissing(f"{name} is not built; run `make build`")
    return Path(found)
