# SPDX-License-Identifier: Apache-2.0
"""Whether a process can act on SIGTERM.

The kernel gives the first process of a PID namespace only those signals that it has a handler for
(pid_namespaces(7)); a script without a trap is never told. Waiting for it would only take time.
"""

import signal
from pathlib import Path

_TERM = 1 << (signal.SIGTERM - 1)


def takes_sigterm(pid: int) -> bool:
    """False if the process is the first of a PID namespace of its own and handles no SIGTERM.

    True for one that has ended, and for all others, which SIGTERM ends or tells.
    """
    try:
        text = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    fields = dict(line.partition(":")[::2] for line in text.splitlines())
    pids = fields.get("NSpid", "").split()
    is_first = len(pids) > 1 and pids[-1] == "1"
    return not is_first or bool(int(fields["SigCgt"], 16) & _TERM)
