# SPDX-License-Identifier: Apache-2.0
"""What a request's body may be: bounded in size, depth and numbers, and text that can be written.

JSON allows what the places that it goes to do not: UTF-16 surrogates without their other half (no
UTF-8 has them, so an answer that quotes one cannot be sent), NUL (ends a C string), integers of any
length, one key twice (of which a parser keeps only one).
"""

import json
import math
from typing import Any

from headrace.node.errors import GraphRefused

MAX_BYTES = 4 << 20
MAX_DEPTH = 64
_MAX_DIGITS = 20


def parse(body: bytes) -> Any:
    """The JSON of a body.

    Raises:
        GraphRefused: it is none, or exceeds a bound; says where.
    """
    try:
        text = body.decode(json.detect_encoding(body), "surrogatepass")
        value = json.loads(
            text,
            object_pairs_hook=_object,
            parse_int=_integer,
            parse_float=_real,
            parse_constant=_constant,
        )
    except UnicodeDecodeError as error:
        raise GraphRefused("json", f"the body is no UTF-8: {error}") from error
    except RecursionError:
        raise GraphRefused("json", "the body is nested too deeply for a graph") from None
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise GraphRefused("json", f"the body is no JSON: {error.msg} at {place}") from error
    # Only an escape can be what ASCII cannot have, and no text has a NUL without one.
    _check(value, texts="\\u" in text or not text.isascii())
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise GraphRefused("json", f"an object of the body has the key {key!a} twice")
            seen.add(key)
    return made


def _integer(text: str) -> int:
    if len(text) > _MAX_DIGITS:
        raise GraphRefused("json", f"the body has a number of {len(text)} digits")
    return int(text)


def _real(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise GraphRefused("json", f"the body has a number that is too large: {text[:40]}")
    return value


def _constant(text: str) -> float:
    raise GraphRefused("json", f"the body is no JSON: {text} is no number there")


def _check(value: Any, texts: bool) -> None:
    """Checks the depth of a value and, if it may have wrong ones, its `texts`."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        deeper: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                if texts:
                    for key in item:
                        _check_text(key)
                deeper += item.values()
            elif isinstance(item, list):
                deeper += item
            elif texts and isinstance(item, str):
                _check_text(item)
        if not deeper:
            return
        level = deeper
    raise GraphRefused("json", "the body is nested too deeply for a graph")


def _check_text(text: str) -> None:
    if "\0" in text:
        raise GraphRefused("json", f"a text of the body has a NUL character: {text[:40]!a}")
    try:
        text.encode()
    except UnicodeEncodeError:
        words = f"a text of the body has half of a surrogate pair: {text[:40]!a}"
        raise GraphRefused("json", words) from None


def sendable(text: str) -> str:
    """`text` with what no UTF-8 has written as an escape."""
    return text.encode(errors="backslashreplace").decode()
