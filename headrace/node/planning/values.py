# SPDX-License-Identifier: Apache-2.0
"""How NF-FGs write numbers, texts and ids, and objects with keys that nobody here knows."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema


def _text(value: Any) -> Any:
    """Dialects write numbers as strings or bare; both become text."""
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


_IDENTIFIER = r"^[^:/\s\x00-\x1f\x7f]+$"
NUMBER_OR_TEXT: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "integer"}]}

Text = Annotated[str, BeforeValidator(_text), WithJsonSchema(NUMBER_OR_TEXT)]
Identifier = Annotated[
    str,
    BeforeValidator(_text),
    Field(min_length=1, max_length=64, pattern=_IDENTIFIER),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "minLength": 1, "maxLength": 64, "pattern": _IDENTIFIER},
                {"type": "integer"},
            ]
        }
    ),
]


class Open(BaseModel):
    """An object of a document; keys that no dialect knows are kept, and warned of."""

    model_config = ConfigDict(extra="allow", populate_by_name=True)
