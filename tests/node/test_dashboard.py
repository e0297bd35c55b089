# SPDX-License-Identifier: Apache-2.0
"""Grafana reads the dashboard: by its own types, and as a program where one runs."""

from __future__ import annotations

import json
import os
from typing import Any

import httpx
import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import dashboard as grafana

from tests.node.test_metrics import DASHBOARD

GRAFANA, TOKEN = "HEADRACE_GRAFANA", "HEADRACE_GRAFANA_TOKEN"
# What the editor shows of a variable's query; the query itself is read.
_OF_THE_EDITOR = {"definition"}


def lost(written: Any, read: Any, place: str = "") -> list[str]:
    """The places of what is written and was not read, or was read as something else."""
    if isinstance(written, dict) and isinstance(read, dict):
        return [
            what
            for key, value in written.items()
            if key not in _OF_THE_EDITOR
            for what in (
                lost(value, read[key], f"{place}/{key}") if key in read else [f"{place}/{key}"]
            )
        ]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        pairs = enumerate(zip(written, read, strict=True))
        return [what for n, (a, b) in pairs for what in lost(a, b, f"{place}/{n}")]
    return [] if written == read else [place]


def read_by_grafana(document: dict[str, Any]) -> tuple[grafana.Dashboard, dict[str, Any]]:
    """A dashboard as Grafana's types have it, and all that they have kept of it."""
    found = grafana.Dashboard.from_json(document)
    return found, json.loads(JSONEncoder().encode(found))


def test_grafanas_types_have_a_place_for_all_that_is_in_it() -> None:
    document = json.loads(DASHBOARD.read_text())
    found, kept = read_by_grafana(document)
    assert lost(document, kept) == []
    assert found.title == document["title"] and found.uid == document["uid"]
    panels = found.panels or []
    assert len(panels) == len(document["panels"]) > 0
    numbers = [panel.id_val for panel in panels]
    assert None not in numbers and len(set(numbers)) == len(numbers)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        assert isinstance(panel, grafana.Panel) and panel.type_val and panel.targets
        place = panel.grid_pos
        assert place is not None and place.x + place.w <= 24  # Grafana's columns
        covered = {
            (x, y)
            for x in range(place.x, place.x + place.w)
            for y in range(place.y, place.y + place.h)
        }
        assert not covered & cells, f"{panel.title} lies over another panel"
        cells |= covered


def test_what_has_no_place_is_found() -> None:
    document = json.loads(DASHBOARD.read_text())
    document["panels"][0]["nonsense"] = 1
    assert lost(document, read_by_grafana(document)[1]) == ["/panels/0/nonsense"]


@pytest.mark.skipif(
    GRAFANA not in os.environ,
    reason=f"{GRAFANA} names no Grafana (http://HOST:PORT, its token in {TOKEN}); neither Debian "
    "nor PyPI has one",
)
def test_a_grafana_loads_it() -> None:
    document = json.loads(DASHBOARD.read_text())
    headers = {"Authorization": f"Bearer {os.environ.get(TOKEN, '')}"}
    with httpx.Client(base_url=os.environ[GRAFANA], headers=headers, timeout=60) as http:
        uid = f"headrace-test-{os.getpid()}"
        body = {"dashboard": {**document, "id": None, "uid": uid}, "overwrite": True}
        answer = http.post("/api/dashboards/db", json=body)
        assert answer.status_code == 200, answer.text
        try:
            loaded = http.get(f"/api/dashboards/uid/{uid}").json()["dashboard"]
            assert [one["title"] for one in loaded["panels"]] == [
                one["title"] for one in document["panels"]
            ]
        finally:
            http.delete(f"/api/dashboards/uid/{uid}")
