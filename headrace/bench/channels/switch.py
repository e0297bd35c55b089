# SPDX-License-Identifier: Apache-2.0
"""headrace-switch between the two ends: two ports of a kind and one rule."""

from pathlib import Path

from headrace.bench.peers.switches import Headrace
from headrace.bench.peers.systems import Place
from headrace.machine.programs import find_program

PRODUCER, CONSUMER = 1, 2
GROUP = "channel"
# The EtherType of the producer's frames. A rule that matches it forwards only a part of the port's
# traffic, so the switch must parse packets and makes no direct link.
THROUGH = (f"in_port={PRODUCER},dl_type=0x88b5,actions=output:{CONSUMER}",)
LINKS = (
    f"in_port={PRODUCER},actions=output:{CONSUMER}",
    f"in_port={CONSUMER},actions=output:{PRODUCER}",
)


class Switch:
    """One switch for all rounds, stopped while it is not measured."""

    def __init__(self, where: Place) -> None:
        """Nothing is started; `where` gives its worker's core."""
        self._system = Headrace(where, find_program("headrace-switch"))

    @property
    def group_socket(self) -> Path:
        """The socket at which VNFs of the group attach."""
        return self._system.rundir / f"{GROUP}.shm"

    def join(self, kind: str, folder: Path, *, links: bool) -> None:
        """Creates the two ports of a kind and the rules, and continues the switch."""
        if self._system.children:
            self._system.resume()
        else:
            self._system.start()
        self._system.vsctl("--if-exists", "del-br", "br0")
        self._system.vsctl("add-br", "br0", *self._system.bridge_options("br0"))
        for name, number in (("producer", PRODUCER), ("consumer", CONSUMER)):
            option = f"group={GROUP}" if kind == "shm" else f"socket={folder}/{name}.sock"
            self._system.vsctl(
                *("add-port", "br0", name, "--", "set", "Interface", name, f"type={kind}"),
                *(f"ofport_request={number}", f"options:{option}"),
            )
        self._system.ofctl("del-flows")
        rules = LINKS if links else THROUGH
        self._system.ofctl("add-flows", "-", stdin="\n".join(rules) + "\n")

    def park(self) -> None:
        """Stops it (SIGSTOP)."""
        self._system.park()

    def stop(self) -> None:
        """Terminates it."""
        self._system.stop()
