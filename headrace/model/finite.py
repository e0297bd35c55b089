# SPDX-License-Identifier: Apache-2.0
"""Numbers as JSON has them: neither infinite nor none."""

import math
from typing import Any


def finite(value: Any) -> Any:
    """The same value, with None instead of each number that JSON has not."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {key: finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [finite(one) for one in value]
    return value
