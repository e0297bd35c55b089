# SPDX-License-Identifier: Apache-2.0
"""The original node's clients and sample graphs, against this node."""
