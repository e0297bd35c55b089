# SPDX-License-Identifier: Apache-2.0
"""Checks the tree: its modules, its SPDX lines, and the paths and words in it.

Dependencies between modules point one way, every source file has its SPDX line, the files that
pages and comments name exist (check_paths.py), and no retired word is used (check_words.py).

Run as `make check-deps`. Prints one line per offence, `file:line: what`, and exits 1 if any.
"""

import re
import subprocess
import sys
from pathlib import Path

import check_words
from check_paths import Tree, page_offences, source_offences

ROOT = Path(__file__).resolve().parent.parent

# The files that have to name what check_words.py refuses.
WORD_CHECK = {Path("setup/check_words.py"), Path("tests/setup/test_check_words.py")}

# Each C++ module and the modules it may include from.
CPP_MODULES: dict[str, set[str]] = {
    "base": set(),
    "flowsource": set(),
    "unixctl": {"base"},
    "eal": {"base"},
    "shm": {"base"},
    "confine": {"base"},
    "packet": {"base"},
    "match": {"base", "packet"},
    "pipeline": {"base", "packet", "match"},
    "openflow": {"base", "packet", "match", "pipeline"},
    "port": {"base", "eal", "shm", "packet", "match", "pipeline"},
    "ovsdb": {"base", "packet", "match", "pipeline", "openflow", "port"},
    "runtime": {
        "base",
        "unixctl",
        "eal",
        "packet",
        "match",
        "pipeline",
        "openflow",
        "port",
        "ovsdb",
    },
    "traffic": {"base", "eal", "shm", "packet", "port"},
    "vnf": {"base", "eal", "shm", "packet", "match", "port"},
    "channel": {"base", "eal", "shm", "port"},
}
CPP_MODULES["apps"] = set(CPP_MODULES)

# Modules with sub-modules: each sub-module and those of the same module that it may include from.
# Tests, benchmarks and fuzz targets may stand anywhere in their module and include any of it.
CPP_SUBMODULES: dict[str, dict[str, set[str]]] = {
    "match": {
        "fields": set(),
        "structures": {"fields"},
        "table": {"fields", "structures"},
    },
    "pipeline": {
        "terms": set(),
        "program": {"terms"},
        "execute": {"terms", "program"},
        "operations": {"terms", "program", "execute"},
        "control": {"terms", "program", "execute", "operations"},
        "trace": {"terms", "program", "execute", "operations", "control"},
        "testing": {"terms", "program", "execute", "operations", "control"},
    },
    "openflow": {
        "codec": set(),
        "session": {"codec"},
        "agent": {"codec", "session"},
    },
    "runtime": {
        "workers": set(),
        "switch": {"workers"},
        "commands": {"workers", "switch"},
    },
    "traffic": {
        "frames": set(),
        "measure": {"frames"},
        "ports": {"frames"},
        "trial": {"frames", "measure", "ports"},
    },
}

# Sub-modules that may include from fewer modules than their module may.
CPP_SUBMODULE_MODULES: dict[str, set[str]] = {
    "runtime/workers": {"base", "eal", "packet", "pipeline"},
}

# Each Python module and the modules that it may import from. headrace/cli.py and commands/ may
# import any.
PY_MODULES: dict[str, set[str]] = {
    "": {"machine"},  # headrace/client.py
    "machine": set(),
    "protocols": set(),
    "results": set(),
    "traffic": {"machine"},
    "switches": {"machine", "protocols"},
    "engines": {"machine", "protocols", "switches"},
    "node": {"machine", "switches", "engines", "model"},
    "bench": {"machine", "protocols", "results", "traffic", "model", "placement"},
    "conformance": {"machine", "traffic", "bench", "report"},
    "model": {"results"},
    "placement": set(),
    "cluster": {"placement", "model", "results"},
    "report": {"results", "model", "placement"},
}

SOURCE_SUFFIXES = {".cc", ".h", ".py", ".md", ".sh", ".build", ".yaml", ".yml", ".toml", ".j2"} | {
    ".sql",
    ".go",
    ".mod",
    ".service",
    ".js",
    ".css",
    ".html",
}


def tracked_files() -> list[Path]:
    """All files of the checkout that git tracks or would add."""
    listed = subprocess.run(
        ["/usr/bin/git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).is_file()]


def cpp_offences(path: Path) -> list[str]:
    """Includes of `path` that its module may not have."""
    name = path.relative_to(ROOT)
    module = name.parts[1]
    if module not in CPP_MODULES:
        return [f"{name}:1: dataplane/{module} is not a known module"]
    parent = str(path.parent.relative_to(ROOT / "dataplane"))
    where = parent if parent in CPP_SUBMODULE_MODULES else module
    allowed = CPP_SUBMODULE_MODULES.get(where, CPP_MODULES[module]) | {module}
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r'\s*#include "(\w+)/', line)
        if match and match[1] in CPP_MODULES and match[1] not in allowed:
            found.append(f"{name}:{number}: {where} may not include {match[1]}/")
    if module in CPP_SUBMODULES:
        found += submodule_offences(path, module)
    return found


def submodule_offences(path: Path, module: str) -> list[str]:
    """Includes of `path` from its own module that its sub-module may not have."""
    if re.search(r"_(test|bench|fuzz)\.cc$", path.name):
        return []
    name = path.relative_to(ROOT)
    submodule = name.parts[2]
    submodules = CPP_SUBMODULES[module]
    if submodule not in submodules:
        return [f"{name}:1: dataplane/{module}/{submodule} is not a known sub-module"]
    allowed = submodules[submodule] | {submodule}
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(rf'\s*#include "{module}/(\w+)/', line)
        if match and match[1] not in allowed:
            found.append(f"{name}:{number}: {module}/{submodule} may not include {match[1]}/")
    return found


def python_offences(path: Path) -> list[str]:
    """Imports of `path` that its module may not have."""
    name = path.relative_to(ROOT)
    parts = name.parts[1:]
    if parts[0] in {"cli.py", "__main__.py"} or parts[0] == "commands":
        return []
    module = parts[0] if len(parts) > 1 else ""
    if module not in PY_MODULES:
        return [f"{name}:1: headrace/{module} is not a known module"]
    allowed = PY_MODULES[module] | {module}
    found = []
    for number, line in enumerate(path.read_text().splitlines(), 1):
        match = re.match(r"\s*(?:from|import) headrace\.(\w+)", line)
        if match and match[1] in PY_MODULES and match[1] not in allowed:
            importer = module or "headrace"
            found.append(f"{name}:{number}: {importer} may not import {match[1]}")
    return found


def main() -> int:
    """Checks every file; returns the exit status."""
    offences: list[str] = []
    files = tracked_files()
    tree = Tree(path.relative_to(ROOT) for path in files)
    for path in files:
        relative = path.relative_to(ROOT)
        if path.suffix in SOURCE_SUFFIXES or path.name == "Makefile":
            head = path.read_text()[:400]
            if "SPDX-License-Identifier: Apache-2.0" not in head:
                offences.append(f"{relative}:1: no SPDX line")
        if path.suffix in {".cc", ".h"} and relative.parts[0] == "dataplane":
            offences += cpp_offences(path)
            offences += source_offences(str(relative), path.read_text(), tree, set(CPP_MODULES))
        if path.suffix == ".md":
            offences += page_offences(str(relative), path.read_text(), tree)
        if path.suffix == ".py" and relative.parts[0] == "headrace":
            offences += python_offences(path)
        if path.suffix in check_words.SUFFIXES and relative not in WORD_CHECK:
            offences += check_words.word_offences(str(relative), path.read_text())
    for line in offences:
        print(line)
    print(f"check_tree: {len(offences)} offences")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
