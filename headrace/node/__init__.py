# SPDX-License-Identifier: Apache-2.0
"""The node: graphs (NF-FG) by REST, planned, deployed and kept on one switch and its engines."""
