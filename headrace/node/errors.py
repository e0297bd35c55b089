# SPDX-License-Identifier: Apache-2.0
"""The node's own failures, each with the module that found it: `{"module", "message"}` outside."""

import yaml
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


class StoreFault(NodeError):
    """The database could not be written (a full disk, a lock); nothing was changed."""


class SwitchDown(NodeError):
    """The switch has ended and is started again: answered with 503 and `Retry-After`."""


class Busy(NodeError):
    """The graph is being changed by another request: answered with 409."""


class AccessError(NodeError):
    """Who asks may not do that: answered with `code`; not before `retry_s` seconds, if that is."""

    def __init__(self, code: int, message: str, retry_s: int = 0) -> None:
        super().__init__("access", message)
        self.code = code
        self.retry_s = retry_s


class ConfigError(NodeError):
    """The node's own configuration is wrong."""


class DeployFailed(NodeError):
    """The switch or an engine failed; everything was undone: answered with 500."""


_WORDS = {
    "missing": "is missing",
    "model_type": "must be an object",
    "dict_type": "must be an object",
    "list_type": "must be a list",
    "string_type": "must be a string",
    "int_type": "must be an integer",
    "bool_type": "must be true or false",
    "extra_forbidden": "there is no such key",
}
_SHOWN = 60


def describe(error: ValidationError, whole: str) -> str:
    """A validation error as `place: what`, in the words of the document; the first of several.

    `whole` is the place of what is wrong with the document as a whole.
    """
    first = error.errors()[0]
    kind, found = first["type"], first["input"]
    text = _WORDS.get(kind, first["msg"].removeprefix("Value error, "))
    limits = first.get("ctx", {})
    if kind in ("too_short", "string_too_short") and isinstance(found, str):
        text = f"must have at least {limits['min_length']} character"
    elif kind in ("too_long", "string_too_long") and isinstance(found, str):
        text = f"must have at most {limits['max_length']} characters"
    if kind not in ("missing", "value_error") and not isinstance(found, (dict, list)):
        shown = repr(found)
        text += f" (found {shown if len(shown) <= _SHOWN else shown[:_SHOWN] + '...'})"
    more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
    return f"{place_of(first['loc']) or whole}: {text}{more}"


def place_of(location: tuple[int | str, ...]) -> str:
    """`big-switch.flow-rules[2].match` from pydantic's location."""
    text = ""
    for part in location:
        if isinstance(part, str) and "[" in part:
            continue  # which member of a union was tried
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part}"
    return text


def one_line(error: yaml.YAMLError) -> str:
    """What a YAML parser says, with the place, without its drawing of the text."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"{problem} at line {mark.line + 1} column {mark.column + 1}" if mark else problem
