# SPDX-License-Identifier: Apache-2.0
"""The audit log: a line of JSON for each request that changes something, and for each refusal.

`log/audit.log` is the node's own; like all logs it is put aside when it grows too long.
"""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headrace.machine.processes import make_private, open_log

_SHOWN = 200
_WORDS = 32


class Audit:
    """The log of one node."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "audit.log"

    def note(self, user: str, source: str, method: str, path: str, status: int) -> None:
        """Writes who asked for what, from where, and how it was answered."""
        line = {"method": method, "path": path[:_SHOWN], "status": status}
        self._write(user, source, line)

    def note_exec(
        self, user: str, source: str, graph: str, vnf: str, command: Sequence[str]
    ) -> None:
        """Writes which command is run in a VNF, before it is."""
        words = [word[:_SHOWN] for word in command[:_WORDS]]
        self._write(user, source, {"exec": words, "graph": graph, "vnf": vnf})

    def _write(self, user: str, source: str, more: dict[str, Any]) -> None:
        make_private(self._file.parent)
        line = {"at": round(time.time(), 3), "user": user, "from": source, **more}
        with open_log(self._file) as log:
            log.write(json.dumps(line).encode() + b"\n")
