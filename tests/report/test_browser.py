# SPDX-License-Identifier: Apache-2.0
"""The report in headless Chromium at 400 and 1280 pixels: nothing overflows, labels are readable.

A frame of the wanted width holds the page, since a headless window has a minimum width of its own.
"""

import json
import re
import subprocess
from pathlib import Path

import pytest
from typer.testing import CliRunner

from headrace.cli import app
from tests.support.chromium import browser

SMALLEST_LABEL_PX = 9.0
FRAME = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe id="page" src="index.html" width="WIDTH" height="2000" style="border:0"></iframe>
<script>
document.getElementById("page").onload = event => {
  const inner = event.target.contentDocument;
  const texts = [...inner.querySelectorAll("figure svg text")].map(text => {
    const scale = text.getScreenCTM();
    return Math.hypot(scale.a, scale.b) * parseFloat(getComputedStyle(text).fontSize);
  });
  const found = {overflow: inner.documentElement.scrollWidth - inner.documentElement.clientWidth,
                 figures: inner.querySelectorAll("figure svg").length,
                 smallest: Math.min(...texts)};
  const out = document.createElement("pre");
  out.textContent = "MEASURED" + JSON.stringify(found) + "END";
  document.body.append(out);
};
</script>"""


@pytest.mark.parametrize("width", [400, 1280])
def test_the_page_fits_and_its_labels_are_readable(tmp_path: Path, width: int) -> None:
    program = browser()
    outcome = CliRunner().invoke(
        app,
        ["run", "--simulate", "--quick", "--results", str(tmp_path / "r.sqlite"),
         "--report", str(tmp_path)],
    )  # fmt: skip
    assert outcome.exit_code == 0, outcome.output
    (tmp_path / "frame.html").write_text(FRAME.replace("WIDTH", str(width)))
    shown = subprocess.run(
        [program, "--headless", "--no-sandbox", "--disable-gpu", "--allow-file-access-from-files",
         f"--user-data-dir={tmp_path / 'profile'}", "--virtual-time-budget=20000", "--dump-dom",
         (tmp_path / "frame.html").as_uri()],
        capture_output=True, text=True, timeout=100, check=True,
    ).stdout  # fmt: skip
    measured = re.search(r"MEASURED(\{.*?\})END", shown)
    assert measured is not None, shown[-500:]
    found = json.loads(measured[1])
    assert found["figures"] > 3 and found["overflow"] <= 0
    assert found["smallest"] >= SMALLEST_LABEL_PX
