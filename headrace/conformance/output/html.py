# SPDX-License-Identifier: Apache-2.0
"""The results as one HTML page, which needs no other file."""

from collections.abc import Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from headrace.conformance.case import Part, Result, Verdict
from headrace.conformance.output.charts import drawn
from headrace.conformance.output.document import summary

_TITLES = {
    Part.INTERFACES: "Interfaces (Annex A)",
    Part.FUNCTIONS: "Functions (Annex B)",
    Part.PERFORMANCE: "Performance (Annex C)",
}


def page(results: Sequence[Result], manifest: dict[str, Any]) -> str:
    """The page as text."""
    environment = Environment(
        loader=PackageLoader("headrace.conformance.output"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    charts = {
        each.case.number: [svg for chart in each.findings.charts if (svg := drawn(chart))]
        for each in results
    }
    return environment.get_template("page.html.j2").render(
        results=results,
        parts=[
            (title, [each for each in results if each.case.part == part])
            for part, title in _TITLES.items()
            if any(each.case.part == part for each in results)
        ],
        charts=charts,
        counts=summary(results),
        manifest=manifest,
        verdicts=Verdict,
    )
