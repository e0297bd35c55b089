# SPDX-License-Identifier: Apache-2.0
"""An external TRex server as the generator."""

from headrace.traffic.trex.generator import TrexGenerator

__all__ = ["TrexGenerator"]
