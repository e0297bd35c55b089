# SPDX-License-Identifier: Apache-2.0
from pathlib import Path

from tests.openflow import make_codec_fixtures

FIXTURES = Path(__file__).parents[2] / "dataplane/openflow/codec/testdata/codec.txt"


def test_file_is_what_the_program_makes() -> None:
    assert FIXTURES.read_text().splitlines() == list(make_codec_fixtures.lines())
