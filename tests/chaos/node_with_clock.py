# SPDX-License-Identifier: Apache-2.0
"""The node's own process with a wall clock that steps: `python node_with_clock.py RUNDIR FILE`.

FILE holds the seconds by which the clock is off; it may be changed at any time.
"""

import sys
import time
from pathlib import Path

from headrace.node import __main__

_OFFSET = Path(sys.argv.pop())
_real = time.time


def _stepped() -> float:
    try:
        return _real() + float(_OFFSET.read_text())
    except (OSError, ValueError):  # just being written
        return _real()


time.time = _stepped
if __name__ == "__main__":
    sys.exit(__main__.main())
