# SPDX-License-Identifier: Apache-2.0
"""A graph divided over nodes: `hops.py` what its rules join, `cut.py` the parts, `join.py` back.

All of it is pure: from a document and the nodes of its VNFs and end-points to documents.
"""
