# SPDX-License-Identifier: Apache-2.0
"""docs/tutorial.md as a reader follows it: every block in one folder, the page in a browser."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from headrace.engines.runc import RUNC
from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.planning.nffg import parse
from headrace.node.templates import Template
from tests.docs.pages import ROOT
from tests.node.conftest import rundir as rundir
from tests.support.chromium import browser, tab_of

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a node"),
    pytest.mark.skipif(shutil.which(RUNC) is None, reason=f"{RUNC} is not installed (make setup)"),
]

# Another node of this machine may have the default address.
HEADRACE = """#!{python}
import sys
words = sys.argv[1:]
if words[:1] == ["up"]:
    words += ["--rest", "127.0.0.1:0"]
sys.argv[1:] = words
sys.path.insert(0, {root!r})
from headrace.cli import main
main()
"""


def blocks() -> list[str]:
    text = (ROOT / "docs/tutorial.md").read_text()
    return re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@pytest.fixture
def environment(rundir: Path, tmp_path: Path) -> Iterator[dict[str, str]]:
    command = tmp_path / "bin" / "headrace"
    command.parent.mkdir()
    command.write_text(HEADRACE.format(python=sys.executable, root=str(ROOT)))
    command.chmod(0o755)
    values = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "HEADRACE_RUNDIR": str(rundir),
        "HEADRACE_STATEDIR": str(tmp_path / "state"),
    }
    yield values
    subprocess.run([command, "down"], env=values, timeout=110, check=False)


def run(block: str, place: Path, environment: dict[str, str]) -> str:
    """What a block has said; what it leaves in the background runs on, and holds no pipe."""
    said = place / "said"
    with said.open("w") as out:
        done = subprocess.run(
            ["bash", "-e", "-c", block],
            cwd=place,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            timeout=600,
            check=False,
        )
    text = said.read_text()
    assert done.returncode == 0, f"{block}\n{text}"
    return text


def test_the_blocks_are_shell_and_the_graph_is_one() -> None:
    for block in blocks():
        subprocess.run(["bash", "-n", "-c", block], check=True)
    (document,) = re.findall(r"<<'END'\n(\{.*?)\nEND", blocks()[2], re.DOTALL)
    graph, warnings = parse(json.loads(document))
    assert [vnf.vnf_template for vnf in graph.vnfs] == ["mine"] and warnings == []
    (words,) = re.findall(r"> mine.yaml <<END\n(.*?)\nEND", blocks()[1], re.DOTALL)
    assert Template.model_validate(yaml.safe_load(words)).id == "mine"


@pytest.mark.full
async def test_every_block_but_the_benchmark(
    environment: dict[str, str], tmp_path: Path, rundir: Path
) -> None:
    try:
        for program in ("headrace-switch", "headrace-traffic"):
            find_program(program)
    except ProgramMissing as error:
        pytest.skip(str(error))
    place = tmp_path / "tutorial"
    place.mkdir()
    image, node, graph, ping, stream, end, benchmark = blocks()
    assert benchmark == "headrace run --quick\n"
    run(image, place, environment)
    assert re.search(r"\bmine\b", run(node, place, environment))
    said = run(graph, place, environment)
    assert "complete (100 %)" in said and "forwarding as user 0" in said
    assert "3 sent into p0, 3 arrived at p1" in run(ping, place, environment)
    url = json.loads((rundir / "node.json").read_text())["url"]
    async with tab_of(browser()) as tab:
        await tab.go(f"{url}/#/graphs/mine")
        await tab.until("document.querySelector('[data-box=\"vnf:bridge\"]')")
        # What is in the background outlives the block, as it does a line in a terminal.
        watched = asyncio.create_task(asyncio.to_thread(run, stream, place, environment))
        rates = "[...document.querySelectorAll('.link .rate')].map((e) => e.textContent)"
        moves = f"{rates}.some((text) => text.match(/[1-9]/))"
        await tab.until(moves, seconds=100)
        assert "bridge" in await watched
    run("until [ -s sent.txt ]; do sleep 0.2; done", place, environment)
    # A few may come before the port has its link.
    assert "packets sent into p0" in (place / "sent.txt").read_text()
    run(end, place, environment)
    assert not (rundir / "node.json").exists()


@pytest.mark.full
@pytest.mark.timeout(900)
def test_the_benchmark(environment: dict[str, str], tmp_path: Path) -> None:
    run(blocks()[-1], tmp_path, environment)
    assert "<html" in (tmp_path / "report/index.html").read_text()
