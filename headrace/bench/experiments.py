# SPDX-License-Identifier: Apache-2.0
"""The experiments of the papers: files in `scenarios/<paper>/`, each made of cases or a command.

A command is what measures where a graph does not fit: `command: [bench, channels, --repeats, "3"]`
is run as `headrace bench channels --repeats 3 --json`, and its rows are stored with the campaign.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field, ValidationError

from headrace.bench.errors import ScenarioError
from headrace.bench.profiles import read
from headrace.bench.scenario import About, Scenario, load, places, scenario_of
from headrace.bench.settings import SCENARIOS
from headrace.results.papers import PAPERS, paper

SUFFIXES = (".yaml", ".yml")


class CommandExperiment(About):
    """One experiment that a command of headrace measures."""

    command: Annotated[list[str], Field(min_length=1)]


Experiment = Scenario | CommandExperiment


def load_experiment(path: Path, profile: str | None = None) -> Experiment:
    """Reads one file of a paper; its name has the paper's folder before it.

    Raises:
        ScenarioError: the file cannot be read or is invalid, or has no such profile.
    """
    content = {**read(path, profile), "name": f"{path.parent.name}/{path.stem}"}
    if "command" not in content:
        return scenario_of(path, content)
    try:
        return CommandExperiment.model_validate(content)
    except ValidationError as error:
        raise ScenarioError(f"{path}: {places(error)}") from error


def files_of(key: str, folder: Path = SCENARIOS) -> list[Path]:
    """The files of a paper."""
    return sorted((folder / key).glob("*.yaml"))


def load_papers(
    keys: Sequence[str] = (), profile: str | None = None, folder: Path = SCENARIOS
) -> list[Experiment]:
    """All experiments of these papers, of all papers if none is named, in the order of `PAPERS`."""
    wanted = keys or [one.key for one in PAPERS]
    return [load_experiment(path, profile) for key in wanted for path in files_of(key, folder)]


def find_experiments(
    names: Sequence[str], profile: str | None = None, folder: Path = SCENARIOS
) -> list[Experiment]:
    """The named experiments: papers, experiments as `paper/name`, scenarios, or paths of files.

    Raises:
        ScenarioError: a name is unknown; the message lists the known ones.
    """
    found: list[Experiment] = []
    for name in names:
        known = paper(name)
        path = Path(name) if name.endswith(SUFFIXES) else folder / f"{name}.yaml"
        if known is not None:
            found += load_papers([known.key], profile, folder)
        elif not path.is_file():
            raise ScenarioError(f"no scenario {name!r}; known: {', '.join(_known(folder))}")
        elif paper(path.resolve().parent.name) is not None:
            found.append(load_experiment(path, profile))
        else:
            found.append(load(path, profile))
    return found


def _known(folder: Path) -> list[str]:
    papers = [one.key for one in PAPERS if files_of(one.key, folder)]
    single = sorted(entry.stem for entry in folder.glob("*.yaml"))
    return [*papers, *single, *(f"{key}/{one.stem}" for key in papers for one in files_of(key))]


def of_papers(names: Sequence[str], folder: Path = SCENARIOS) -> bool:
    """Whether one of the names is a paper's or of one of its experiments."""
    return any(
        paper(name) is not None
        or paper(Path(name).parent.name) is not None
        or (folder / name).is_dir()
        for name in names
    )
