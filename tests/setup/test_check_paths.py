# SPDX-License-Identifier: Apache-2.0
"""What setup/check_paths.py takes for a path, and which paths it misses."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SETUP = Path(__file__).resolve().parents[2] / "setup"


def load() -> ModuleType:
    """The module, which is part of no package."""
    spec = importlib.util.spec_from_file_location("check_paths", SETUP / "check_paths.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


check_paths = load()
FILES = (
    "dataplane/base/result.h",
    "dataplane/port/port.h",
    "docs/bench.md",
    "headrace/node/plan.py",
)
TREE = check_paths.Tree(Path(file) for file in FILES)


@pytest.mark.parametrize(
    "text",
    [
        "`dataplane/base/result.h` and `base/result.h` and `result.h`",
        "`node/*.py`",
        "`base/` and `headrace/node`",
        "`dataplane/{base/result,port/port}.h`",
        "`x_test.cc`, `/etc/hosts.json`, `results/headrace.sqlite`",
        "`rte_eth_rx_burst`, `in_port/out_port`, plan.py.old",
    ],
)
def test_pages_may_say(text: str) -> None:
    assert check_paths.page_offences("docs/some.md", text, TREE) == []


@pytest.mark.parametrize(
    ("page", "text", "missing"),
    [
        ("docs/some.md", "see `base/gone.h`", "base/gone.h"),
        ("docs/some.md", "see `gone.py`", "gone.py"),
        ("docs/some.md", "see `node/rest*.py`", "node/rest*.py"),
        ("docs/some.md", "see `headrace/gone/`", "headrace/gone/"),
        ("docs/some.md", "see `dataplane/{base/result,port/gone}.h`", "dataplane/port/gone.h"),
        ("dataplane/port/README.md", "| `result.h` |", "result.h"),
    ],
)
def test_pages_may_not_say(page: str, text: str, missing: str) -> None:
    assert check_paths.page_offences(page, f"\n{text}", TREE) == [
        f"{page}:2: there is no {missing}"
    ]


def test_comments_of_sources() -> None:
    found = check_paths.source_offences(
        "a.cc", '#include "base/result.h"\n// see port/gone.h, asio/post.h', TREE, {"base", "port"}
    )
    assert found == ["a.cc:2: there is no dataplane/port/gone.h"]
