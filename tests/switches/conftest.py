# SPDX-License-Identifier: Apache-2.0
"""The same directory for a switch as in tests/node."""

from tests.node.conftest import rundir

__all__ = ["rundir"]
