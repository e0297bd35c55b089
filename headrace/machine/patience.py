# SPDX-License-Identifier: Apache-2.0
"""How long to wait for what takes longer on a slow machine, such as a guest under emulation.

Starts, links and requests have limits that an ordinary machine never reaches. $HEADRACE_PATIENCE
multiplies them: 10 is enough for a guest that QEMU translates. Measured times are not changed.
"""

import os

PATIENCE_VARIABLE = "HEADRACE_PATIENCE"
_MOST = 1000.0


class PatienceError(ValueError):
    """$HEADRACE_PATIENCE is no factor."""


def patient(limit_s: float) -> float:
    """`limit_s` seconds times $HEADRACE_PATIENCE, a number from 1 to 1000 (1 if it is not set).

    Raises:
        PatienceError: the variable is anything else.
    """
    text = os.environ.get(PATIENCE_VARIABLE)
    if not text:
        return limit_s
    try:
        factor = float(text)
    except ValueError:
        factor = 0.0
    if not 1.0 <= factor <= _MOST:
        raise PatienceError(f"{PATIENCE_VARIABLE}={text}: needs a number from 1 to {_MOST:g}")
    return limit_s * factor
