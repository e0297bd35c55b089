# SPDX-License-Identifier: Apache-2.0
"""Nodes: the same fixtures as in tests/node."""

from tests.node.conftest import rundir, start_node

__all__ = ["rundir", "start_node"]
