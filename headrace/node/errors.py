# SPDX-License-Identifier: Apache-2.0
"""The node's own failures, each with the module that found it: `{"module", "message"}` outside."""


class NodeError(Exception):
    """The node cannot do what was asked; the text names the place and the remedy."""

    def __init__(self, module: str, message: str) -> None:
        super().__init__(message)
        self.module = module


class GraphRefused(NodeError):
    """The client's document cannot be deployed as it is: answered with 400."""


class NotFound(NodeError):
    """There is no such graph, VNF or template: answered with 404."""


class Busy(NodeError):
    """The graph is being changed by another request: answered with 409."""


class ConfigError(NodeError):
    """The node's own configuration is wrong."""


class DeployFailed(NodeError):
    """The switch or an engine failed; everything was undone: answered with 500."""
