# SPDX-License-Identifier: Apache-2.0
"""Writes the pages: one self-contained HTML file for each paper, and an index of all.

Experiments may have been measured in several campaigns; of each the newest that has it is shown.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from headrace.model.cost import READING
from headrace.report import cost_figures
from headrace.report.luizelli_figures import figures as luizelli_figures
from headrace.report.paper_pages.agreement import Reading, readings
from headrace.report.paper_pages.drawing import draw
from headrace.report.paper_pages.series import ours, statements, theirs
from headrace.report.view import View, read
from headrace.results import published
from headrace.results.emulation import NOTE, is_emulated
from headrace.results.experiment import Figure
from headrace.results.papers import PAPERS, Paper
from headrace.results.store import Store, StoreError
from headrace.results.units import digits

FOLDER = "papers"


@dataclass(frozen=True)
class Drawn:
    """One figure of a page: its description, the drawing ("" without any value), what is said."""

    figure: Figure
    svg: str
    readings: list[Reading]
    theirs: int
    ours: int


@dataclass(frozen=True)
class Shown:
    """One experiment of a page.

    Attributes:
        about: what the manifest says of it.
        campaign, when: where it was measured; 0 and "" if it was not.
        drawn: its figures.
        skips: the reason of rows that could not be measured, with how many and which.
        limits: what limited its rates, in how many trials.
        statements: rows of a command that are statements.
        took_s: how long measuring took.
    """

    about: dict[str, Any]
    campaign: int
    when: str
    drawn: list[Drawn]
    skips: list[dict[str, Any]]
    limits: str
    statements: list[dict[str, Any]]
    took_s: float


def newest(store: Store, campaign: int | None = None) -> dict[str, int]:
    """The newest campaign that has each experiment, by its name; only `campaign` if one is named.

    Those of emulated machines count only where one is named, or there are no others.

    Raises:
        StoreError: there is no such campaign.
    """
    found: dict[str, int] = {}
    chosen = [store.campaign(campaign)] if campaign is not None else store.campaigns()
    real = [one for one in chosen if not is_emulated(one.manifest)]
    chosen = real or chosen
    for one in chosen:
        for about in one.manifest.get("experiments", []):
            found[about["name"]] = one.id
    return found


def _shown(about: dict[str, Any], view: View, paper: Paper) -> Shown:
    name = str(about["name"])
    drawn = []
    for at, described in enumerate(about.get("figures", [])):
        # What another version has stored besides is left out.
        known = {key: described[key] for key in described if key in Figure.model_fields}
        figure = Figure.model_validate(known)
        their, mine = theirs(figure, paper.short), ours(figure, view, name)
        if is_emulated(view.campaign.manifest):
            their = []
        series = [*their, *mine]
        salt = f"{name.replace('/', '-')}-{at}"
        svg = draw(figure, series, salt) if series else ""
        drawn.append(Drawn(figure, svg, readings(figure, series), len(their), len(mine)))
    reasons: dict[tuple[str, str], list[str]] = {}
    for skip in view.skips:
        if skip.scenario == name:
            reasons.setdefault((skip.switch, skip.reason), []).append(skip.what)
    started = datetime.fromtimestamp(view.campaign.started, UTC)
    return Shown(
        about,
        view.campaign.id,
        started.strftime("%Y-%m-%d %H:%M UTC"),
        drawn,
        [
            {"subject": subject, "reason": reason, "what": what}
            for (subject, reason), what in reasons.items()
        ],
        _limits(view, name),
        statements(view, name),
        float(view.campaign.manifest.get("took_s", {}).get(name, 0.0)),
    )


def _limits(view: View, name: str) -> str:
    """What limited the overload rates of an experiment: `switch 12 of 16, VNF 4 of 16`."""
    counted: dict[str, int] = {}
    for case, trials in view.trials.items():
        if case.scenario != name:
            continue
        for trial in trials:
            if trial.purpose == "overload":
                counted[trial.limiter] = counted.get(trial.limiter, 0) + 1
    total = sum(counted.values())
    return ", ".join(
        f"{who} {times} of {total}"
        for who, times in sorted(counted.items(), key=lambda item: -item[1])
    )


def _extra(paper: Paper, views: Sequence[View]) -> list[dict[str, str]]:
    """Figures that are not an experiment's: Luizelli's by its functions, and ours by our fits."""
    if paper.key != "luizelli":
        return []
    found = [
        {"title": f"Fig. {name.split('-')[1].split('.')[0]}, from Table I", "svg": svg,
         "lead": "Computed from the printed coefficients; many servers are composed by the model."}
        for name, svg in luizelli_figures().items()
    ]  # fmt: skip
    for view in views:
        drawn = cost_figures.placement_cost(view)
        if drawn is not None:
            lead = (
                "One server is measured, n are composed: n chains of n VNFs on n servers at 100 "
                "kpps a chain, by the functions fitted to ours and by Luizelli's."
            )
            title = f"Fig. 7 to 10, ours beside theirs (campaign {view.campaign.id})"
            found.append({"title": title, "svg": drawn, "lead": lead})
            break
    return found


def _coefficients(paper: Paper, views: Sequence[View]) -> list[dict[str, str]]:
    """Table I beside what is fitted to our trials."""
    if paper.key != "luizelli":
        return []
    rows = [
        {"whose": "paper", "switch": fit.switch, "placement": fit.placement,
         "size": f"{fit.packet_bytes} B", "alpha": digits(fit.alpha), "beta": digits(fit.beta),
         "gamma": digits(fit.gamma), "error": ""}
        for fit in published.cost_functions()
    ]  # fmt: skip
    for view in views:
        for ours_fit in view.model.fits:
            error = f"{100 * ours_fit.cv_error:.0f} %, {ours_fit.points} points"
            rows.append(
                {"whose": f"campaign {view.campaign.id}", "switch": ours_fit.switch,
                 "placement": ours_fit.placement, "size": f"{ours_fit.packet_bytes} B",
                 "alpha": digits(ours_fit.alpha), "beta": digits(ours_fit.beta),
                 "gamma": digits(ours_fit.gamma), "error": error}
            )  # fmt: skip
    return rows


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("headrace.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _counts(shown: Sequence[Shown]) -> dict[str, int]:
    said = [one.verdict for each in shown for drawn in each.drawn for one in drawn.readings]
    return {verdict: said.count(verdict) for verdict in ("agrees", "disagrees", "open")}


def write_papers(
    store: Store, folder: Path, papers: Sequence[Paper] = PAPERS, campaign: int | None = None
) -> list[Path]:
    """Writes `folder`/papers/<paper>.html for each paper and the index of all; returns the paths.

    Raises:
        StoreError: no campaign has an experiment of these papers, or there is no such campaign.
    """
    have = newest(store, campaign)
    views = {number: read(store, number) for number in sorted(set(have.values()))}
    place = folder / FOLDER
    written, rows = [], []
    environment = _environment()
    for paper in papers:
        names = [name for name in have if name.split("/")[0] == paper.key]
        if not names:
            continue
        shown = []
        for name in sorted(names):
            view = views[have[name]]
            listed = view.campaign.manifest["experiments"]
            about = next(one for one in listed if one["name"] == name)
            shown.append(_shown(about, view, paper))
        used = [views[number] for number in sorted({have[name] for name in names}, reverse=True)]
        machine = used[0].campaign.manifest.get("machine", {})
        emulated = is_emulated(used[0].campaign.manifest)
        page = environment.get_template("paper.html.j2").render(
            paper=paper,
            shown=shown,
            extra=[] if emulated else _extra(paper, used),
            coefficients=[] if emulated else _coefficients(paper, used),
            reading=READING,
            counts=_counts(shown),
            machine=machine,
            emulated=NOTE if emulated else "",
            simulated=any(view.campaign.manifest.get("simulated") for view in used),
        )
        place.mkdir(parents=True, exist_ok=True)
        path = place / f"{paper.key}.html"
        path.write_text(page)
        written.append(path)
        rows.append({"paper": paper, "shown": shown, "counts": _counts(shown)})
    if not written:
        wanted = ", ".join(paper.key for paper in papers)
        raise StoreError(
            f"no campaign in {store.path} has an experiment of {wanted}; "
            f"`headrace bench run {papers[0].key}` measures them"
        )
    index = place / "index.html"
    index.write_text(environment.get_template("papers.html.j2").render(rows=rows))
    return [*written, index]
