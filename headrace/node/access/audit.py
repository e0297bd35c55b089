# SPDX-License-Identifier: Apache-2.0
"""The audit log: a line of JSON for each request that changes something, and for each refusal.

`log/audit.log` is the node's own; like all logs it is put aside when it grows too long.
"""

import json
import time
from pathlib import Path

from headrace.machine.processes import make_private, open_log

_SHOWN = 200


class Audit:
    """The log of one node."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "audit.log"

    def note(self, user: str, source: str, method: str, path: str, status: int) -> None:
        """Writes who asked for what, from where, and how it was answered."""
        make_private(self._file.parent)
        line = {
            "at": round(time.time(), 3),
            "user": user,
            "from": source,
            "method": method,
            "path": path[:_SHOWN],
            "status": status,
        }
        with open_log(self._file) as log:
            log.write(json.dumps(line).encode() + b"\n")
