# SPDX-License-Identifier: Apache-2.0
"""What `headrace bench list` shows of each experiment: figure, time, needs, what lacks here."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from headrace.bench.core_plan import CorePlan
from headrace.bench.experiments import Experiment, files_of, load_experiment
from headrace.bench.lacking import in_words, lack_of_subject, oversubscribes
from headrace.bench.papers import minutes_of
from headrace.bench.profiles import PAPER, SMALL
from headrace.bench.scenario import Scenario, load_all
from headrace.bench.settings import SCENARIOS
from headrace.results.papers import PAPERS


@dataclass(frozen=True)
class Listed:
    """One experiment as the list shows it.

    Attributes:
        paper: its short name; of a scenario that is no paper's, those that it is about.
        name: what `headrace bench run` takes.
        figures: of the paper.
        what: its title.
        how: the number of cases and of those that can run here, or the command.
        minutes_small, minutes_paper: by the file; None where it has no such profile.
        needs: what not every machine has.
        lacks: what of that this machine lacks, by a word, with the reason.
        note: what to know of figures taken here.
    """

    paper: str
    name: str
    figures: str
    what: str
    how: str
    minutes_small: float | None
    minutes_paper: float | None
    needs: str
    lacks: dict[str, str]
    note: str

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def listed(plan: CorePlan, folder: Path = SCENARIOS) -> list[Listed]:
    """All experiments: the papers' by paper, then the scenarios of `headrace run`.

    Raises:
        ScenarioError: a file is invalid.
    """
    rows = []
    for paper in PAPERS:
        for path in files_of(paper.key, folder):
            small, whole = (load_experiment(path, profile) for profile in (SMALL, PAPER))
            minutes = (minutes_of(small), minutes_of(whole))
            rows.append(_row(paper.short, small, whole, plan, minutes))
    for scenario in load_all(folder):
        rows.append(_row(", ".join(scenario.papers), scenario, scenario, plan, (None, None)))
    return rows


def _row(
    paper: str,
    small: Experiment,
    whole: Experiment,
    plan: CorePlan,
    minutes: tuple[float | None, float | None],
) -> Listed:
    needs = [need.needs for need in whole.needs]
    subjects = whole.subjects if isinstance(whole, Scenario) else []
    note = ""
    if isinstance(small, Scenario):
        there = [one for one in small.subjects if lack_of_subject(one, plan) is None]
        able = small.model_copy(update={"subjects": there})
        how = f"{len(able.cases()) if there else 0} of {len(small.cases())} cases"
        note = oversubscribes(small, plan) or ""
    else:
        how = f"headrace {' '.join(small.command)}"
    return Listed(
        paper=paper,
        name=small.name,
        figures=", ".join(dict.fromkeys(figure.figure for figure in whole.figures)),
        what=small.title,
        how=how,
        minutes_small=minutes[0],
        minutes_paper=minutes[1],
        needs=", ".join(dict.fromkeys(needs)),
        lacks=in_words(needs, subjects, plan),
        note=note,
    )
