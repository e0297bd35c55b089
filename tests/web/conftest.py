# SPDX-License-Identifier: Apache-2.0
"""The fixtures of the node's tests."""

from tests.node.conftest import api, rundir, start_node

__all__ = ["api", "rundir", "start_node"]
