# SPDX-License-Identifier: Apache-2.0
"""Tests of the node, its switch drivers and its engines."""
