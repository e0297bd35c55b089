# SPDX-License-Identifier: Apache-2.0
"""Two ports by shared memory of a headrace-switch, joined by a direct link.

Once both ends are attached and poll, the switch asks them to use a ring between them; from then on
no packet passes the switch. It still takes back freed buffers and gives them out again.
"""

import contextlib
import dataclasses

from headrace.bench.peers.bed import place, switch_program
from headrace.bench.peers.switches import Headrace

GROUP = "direct"
ENDS = ("left", "right")
MEMORY_MB = 128


class DirectLink:
    """The switch; its worker polls on `core`."""

    def __init__(self, core: int) -> None:
        self._core = core
        self._stack = contextlib.ExitStack()

    def start(self) -> list[str]:
        """Starts it; returns both ends as devices of headrace-traffic.

        Raises:
            PeerError: it can't be started.
        """
        whole = self._stack.enter_context(place())
        where = dataclasses.replace(whole, worker_core=self._core, memory_mb=MEMORY_MB)
        switch = Headrace(where, switch_program())
        self._stack.callback(switch.stop)
        switch.start()
        switch.vsctl("add-br", "br0", *switch.bridge_options("br0"))
        for number, name in enumerate(ENDS, 1):
            switch.vsctl(
                *("add-port", "br0", name, "--", "set", "Interface", name, "type=shm"),
                *(f"ofport_request={number}", f"options:group={GROUP}"),
            )
        switch.ofctl("del-flows")
        for port, other in ((1, 2), (2, 1)):
            switch.ofctl("add-flow", f"in_port={port},actions=output:{other}")
        socket = switch.rundir / f"{GROUP}.shm"
        return [f"shm,socket={socket},port={name}" for name in ENDS]

    def stop(self) -> None:
        """Ends it, in any state."""
        self._stack.close()
