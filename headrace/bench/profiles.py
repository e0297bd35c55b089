# SPDX-License-Identifier: Apache-2.0
"""Reads scenario files: YAML with profiles, of which one is laid over the rest.

    traffic: {sizes: [64], flows: [1000]}
    profiles:
      paper: {minutes: 90, traffic: {sizes: [64, 512, 1518]}}
      small: {minutes: 1}

A profile's mappings are merged with the file's; anything else of it, lists too, takes the place of
what the file has.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from headrace.bench.errors import ScenarioError

SMALL, PAPER = "small", "paper"


def read(path: Path, profile: str | None = None) -> dict[str, Any]:
    """The content of a file with one of its profiles, without the others.

    `profile` None takes the one of reduced size, where the file has profiles at all.

    Raises:
        ScenarioError: the file cannot be read, is no mapping, or has no such profile.
    """
    try:
        content = yaml.safe_load(path.read_text())
    except (OSError, yaml.YAMLError) as error:
        raise ScenarioError(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise ScenarioError(f"{path}: not a scenario (a mapping with graphs, subjects, measure)")
    profiles = content.pop("profiles", None)
    if profiles is None:
        if profile is not None:
            raise ScenarioError(f"{path}: it has no profiles, so none is called {profile!r}")
        return content
    if not isinstance(profiles, dict) or not all(
        isinstance(one, dict) for one in profiles.values()
    ):
        raise ScenarioError(f"{path}: profiles: a mapping of names to what they change")
    name = SMALL if profile is None else profile
    if name not in profiles:
        raise ScenarioError(f"{path}: no profile {name!r}; known: {', '.join(profiles)}")
    return {**_over(content, profiles[name]), "profile": name}


def _over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(below)
    for key, value in above.items():
        old = merged.get(key)
        both = isinstance(value, Mapping) and isinstance(old, Mapping)
        merged[key] = _over(old, value) if both and old is not None else value
    return merged
