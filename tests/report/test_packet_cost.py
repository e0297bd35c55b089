# SPDX-License-Identifier: Apache-2.0
"""The figure of a packet's cycles."""

import pytest

from headrace.report.packet_cost import Stack, draw


def test_every_bar_has_its_label_and_its_sum() -> None:
    text = draw([Stack("p2p one", {"packet": 27.0, "bytes": 3.4}), Stack("p2p two", {"rounds": 9})])
    assert text.startswith("<svg") and "p2p one" in text and ">30<" in text and ">9<" in text


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="no switch was measured"):
        draw([])
