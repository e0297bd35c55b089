# SPDX-License-Identifier: Apache-2.0
"""Checks that every file that a page or a comment names exists.

In Markdown a path is what stands between backticks and either ends as a file of this tree may or
begins with one of its folders. It may be whole (`dataplane/base/result.h`) or its end
(`base/result.h`, `result.h`); the page of a module that names a file by nothing but its name means
one of that module. In C++ a path is a module and a file (`base/result.h`), anywhere.
"""

import fnmatch
import re
from collections.abc import Iterable
from pathlib import Path

SUFFIXES = (
    *(".h", ".cc", ".c", ".py", ".md", ".sh", ".build", ".toml", ".yaml", ".yml", ".j2", ".csv"),
    *(".json", ".txt"),
)

# What pages name that is no file of the tree: outputs, examples, files of other systems.
ELSEWHERE = {
    "node.yaml",
    "graph.json",
    "results/",
    "results/headrace.sqlite",
    "report/",
    "report/index.html",
    "log/",
    "boot/",
}
PLACEHOLDER = re.compile(r"(^|/)x(_\w+)?\.|\.\.\.|[<>]|^/|^~|^[A-Z_]+/")

_TOKEN = re.compile(r"`([A-Za-z0-9_.*/{},-]+)`")
_CPP_PATH = re.compile(r"(?<![\w/.])([a-z]\w*(?:/\w+)*/\w+\.(?:h|cc))\b")


class Tree:
    """The paths of a checkout, by their ends."""

    def __init__(self, files: Iterable[Path]) -> None:
        """`files`: relative to the root of the checkout."""
        self.paths: set[str] = set()
        for file in files:
            self.paths.add(file.as_posix())
            self.paths |= {parent.as_posix() + "/" for parent in file.parents if parent.name}
        self.folders = {path.rstrip("/").split("/")[-1] for path in self.paths if path[-1] == "/"}
        self._ends: set[str] = set()
        for path in self.paths:
            parts = path.rstrip("/").split("/")
            for start in range(len(parts)):
                self._ends.add("/".join(parts[start:]))

    def holds(self, token: str, module: str = "") -> bool:
        """Whether a path of the tree is `token` or ends so.

        A name alone must be below the folder `module`.
        """
        if "*" in token:
            patterns = (token, f"*/{token}")
            return any(fnmatch.fnmatch(path, each) for path in self.paths for each in patterns)
        if module and "/" not in token:
            return any(
                path.startswith(f"{module}/") and path.endswith(f"/{token}") for path in self.paths
            )
        return token.rstrip("/") in self._ends

    def is_claim(self, token: str) -> bool:
        """Whether a token of a page is meant as a path of this tree."""
        if PLACEHOLDER.search(token) or any(
            token == each or (each[-1] == "/" and token.startswith(each)) for each in ELSEWHERE
        ):
            return False
        if token.endswith(SUFFIXES):
            return not token.startswith(".")
        return "/" in token and token.split("/")[0] in self.folders


def _braces(token: str) -> list[str]:
    """`a/{b,c}.h` as `a/b.h` and `a/c.h`."""
    match = re.fullmatch(r"(.*)\{([^{}]*)\}(.*)", token)
    if match is None:
        return [token]
    return [match[1] + each + match[3] for each in match[2].split(",")]


def page_offences(name: str, text: str, tree: Tree) -> list[str]:
    """Paths in a Markdown page that are not there."""
    module = name.rpartition("/")[0] if name.endswith("/README.md") else ""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for written in _TOKEN.findall(line):
            for token in _braces(written):
                if tree.is_claim(token) and not tree.holds(token, module):
                    found.append(f"{name}:{number}: there is no {token}")
    return found


def source_offences(name: str, text: str, tree: Tree, modules: set[str]) -> list[str]:
    """Paths in a C++ file, comments included, that begin with a module and are not there."""
    found = []
    for number, line in enumerate(text.splitlines(), 1):
        for token in _CPP_PATH.findall(line):
            if token.split("/")[0] not in modules or PLACEHOLDER.search(token):
                continue
            if f"dataplane/{token}" not in tree.paths:
                found.append(f"{name}:{number}: there is no dataplane/{token}")
    return found
