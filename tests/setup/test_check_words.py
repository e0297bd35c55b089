# SPDX-License-Identifier: Apache-2.0
"""Which words setup/check_words.py takes for retired ones, and which it leaves alone."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

SETUP = Path(__file__).resolve().parents[2] / "setup"


def load() -> ModuleType:
    """The module, which is part of no package."""
    spec = importlib.util.spec_from_file_location("check_words", SETUP / "check_words.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


check_words = load()


@pytest.mark.parametrize(
    "text",
    [
        "a multiply, a supply, a reply; apply_all(), PlymouthTest",
        "the far end of a veth pair, field_values, the departure of a copy, a detour",
        "strange, entwined, a neighbor, neighboring trials, the booksellers",
        "FlowKey BurstMetadata, TEST(Tunnel, AFarEndIsKnown), class NextTableBatch, PortHandle",
    ],
)
def test_other_words_pass(text: str) -> None:
    assert check_words.word_offences("docs/some.md", text) == []


@pytest.mark.parametrize(
    ("text", "word", "instead"),
    [
        ("class TwinTest {", "Twin", "variant"),
        ("the SIMD twins agree", "twins", "variant"),
        ("int count_strangers();", "strangers", "miss"),
        ("plies_[0]", "plies", "trie node"),
        ("limbo_.push_back(1);", "limbo", "pending free"),
        ("find_neighbours(ip)", "neighbours", "neighbor"),
        ("Neighbouring trials", "Neighbouring", "neighboring"),
        ("using match::FieldValues;", "FieldValues", "FlowKey"),
        ("SolePaths paths;", "SolePath", "PointToPointPath"),
        ("std::map<int, FarEndState>", "FarEnd", "RemoteEndpoint"),
        ("links->let_go(port)", "let_go", "detach"),
        ("three sub-rooms", "sub-room", "sub-module"),
        ("`control/`: the books", "the books", "control state"),
        ("device->keep_up();", "keep_up", "update_link"),
    ],
)
def test_retired_words_are_named_with_their_replacement(text: str, word: str, instead: str) -> None:
    assert check_words.word_offences("a.cc", f"\n{text}\n") == [
        f"a.cc:2: not '{word}' but '{instead}'"
    ]


def test_a_file_s_own_name_is_line_0() -> None:
    assert check_words.word_offences("match/ply_arena.h", "") == [
        "match/ply_arena.h:0: not 'ply' but 'trie node'"
    ]


def test_every_name_is_found_as_written() -> None:
    for name, instead in check_words.NAMES.items():
        assert check_words.word_offences("a.cc", f"x {name} y") == [
            f"a.cc:1: not '{name}' but '{instead}'"
        ]
