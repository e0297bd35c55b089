# SPDX-License-Identifier: Apache-2.0
"""The node's own failures, each with the module that found it: `{"module", "message"}` outside."""

from pydantic import ValidationError


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


def describe(error: ValidationError, whole: str) -> str:
    """A validation error as `place: what`, in the words of the document; the first of several.

    `whole` is the place of what is wrong with the document as a whole.
    """
    first = error.errors()[0]
    text = first["msg"].removeprefix("Value error, ")
    if first["type"] in ("missing",):
        text = "is missing"
    elif first["type"] not in ("value_error",) and not isinstance(first["input"], (dict, list)):
        text += f" (found {first['input']!r})"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place_of(first['loc']) or whole}: {text}{more}"


def place_of(location: tuple[int | str, ...]) -> str:
    """`big-switch.flow-rules[2].match` from pydantic's location."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text
