# SPDX-License-Identifier: Apache-2.0
"""How request handlers get at their node."""

from fastapi import Request

from headrace.node.node import Node


def node_of(request: Request) -> Node:
    """The node that the app of this request serves."""
    node: Node = request.app.state.node
    return node
