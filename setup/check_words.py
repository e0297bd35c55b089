# SPDX-License-Identifier: Apache-2.0
"""Checks that no file uses a name that this project had for something that has a common name.

Two kinds of retired names: words, wherever they stand in prose or as a part of an identifier
(`twin` in `TwinTest` and `simd_twin`), and names or phrases as they are written.
"""

import re

# Retired word -> what to write instead. Singular; the plurals are retired, too.
WORDS = {
    "twin": "variant",
    "stranger": "miss",
    "ply": "trie node",
    "limbo": "pending free",
    "neighbour": "neighbor",
    "neighbouring": "neighboring",
}

# Retired name or phrase, case as written -> what to write instead.
NAMES = {
    "Departures": "NextTableBatch",
    "Detour": "TxHook",
    "FieldValues": "FlowKey",
    "BurstFacts": "BurstMetadata",
    "RuleShape": "FastPathClass",
    "LinkKeeper": "DirectLinkManager",
    "FarEnd": "RemoteEndpoint",
    "SolePath": "PointToPointPath",
    "PortCell": "PortHandle",
    "GroupCell": "GroupHandle",
    "MeterCell": "MeterHandle",
    "sub-room": "sub-module",
    "let_go": "detach",
    "the books": "control state",
    "short ways": "fast paths",
    "keep_up": "update_link",
    "without_nonsense": "remove_malformed",
    "wants_retry": "needs_retry",
    "note_refusal": "record_failure",
}

SUFFIXES = {".h", ".cc", ".c", ".py", ".md", ".sh", ".build", ".toml", ".yaml", ".yml", ".j2"} | {
    ".go"
}

# The parts of identifiers in snake_case and CamelCase, and the words of prose.
_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_NAME = re.compile(r"(?<![A-Za-z])(" + "|".join(map(re.escape, NAMES)) + r")(?:s\b|(?![a-z]))")


def _plurals(word: str) -> set[str]:
    """A word and its plural."""
    return {word, word[:-1] + "ies" if word.endswith("y") else word + "s"}


_INSTEAD = {form: instead for word, instead in WORDS.items() for form in _plurals(word)}


def word_offences(name: str, text: str) -> list[str]:
    """Retired names in the file `name` (its path included, as line 0), with what to write."""
    found = []
    for number, line in enumerate([name, *text.splitlines()]):
        for part in _PART.findall(line):
            if part.lower() in _INSTEAD:
                found.append(f"{name}:{number}: not '{part}' but '{_INSTEAD[part.lower()]}'")
        for written in _NAME.findall(line):
            found.append(f"{name}:{number}: not '{written}' but '{NAMES[written]}'")
    return found
