# SPDX-License-Identifier: Apache-2.0
"""The objects that a cluster needs: the custom resources, the controller, and what nodes run."""

from importlib.resources import files
from typing import Any

import yaml

NAMES = ("servicegraph", "headracenode", "controller", "extender", "node")
"""In the order in which they are to be applied."""


def text(name: str) -> str:
    """A manifest as YAML.

    Raises:
        KeyError: there is none of that name.
    """
    if name not in NAMES:
        raise KeyError(name)
    return files(__package__).joinpath(f"{name}.yaml").read_text()


def objects(name: str) -> list[dict[str, Any]]:
    """The objects of a manifest.

    Raises:
        KeyError: there is none of that name.
    """
    return [one for one in yaml.safe_load_all(text(name)) if one is not None]
