# SPDX-License-Identifier: Apache-2.0
"""Reads the pages: their blocks of code, and the command lines that they show."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

_SHOWN = re.compile(r"^ {4}(?:\$ )?(headrace [a-z][^#`]*)|`(headrace [a-z][^`]*)`")


def block(page: str, language: str) -> str:
    """The first block of a page that is marked as `language`."""
    text = (ROOT / page).read_text()
    found = re.search(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found is not None, f"{page} has no block of {language}"
    return found[1]


def command_lines(page: Path) -> Iterator[tuple[int, str]]:
    """Every `headrace ...` that a page shows, with the number of its line."""
    for number, line in enumerate(page.read_text().splitlines(), 1):
        for found in _SHOWN.finditer(line):
            yield number, (found[1] or found[2]).strip()
