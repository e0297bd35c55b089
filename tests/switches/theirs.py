# SPDX-License-Identifier: Apache-2.0
"""A headrace-switch that is somebody else's: an OpenFlow switch with ports of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from headrace.switches.base import PortKind, PortSpec
from tests.openflow.test_tls import free_port
from tests.support.switch import Switch, running_switch, unique_bridge
from tests.support.veth import VethPair


class Theirs:
    """A bridge of so many ports, which are veth pairs; the far ends are this machine's."""

    def __init__(self, switch: Switch, stack: ExitStack, ports: int = 2) -> None:
        self.switch = switch
        self.bridge = unique_bridge()
        switch.vsctl("add-br", self.bridge, "--", "set", "Bridge", self.bridge, "fail-mode=secure")
        self.ports = []
        for number in range(1, ports + 1):
            pair = stack.enter_context(VethPair())
            switch.vsctl(
                *("add-port", self.bridge, pair.near, "--", "set", "Interface", pair.near),
                *("type=system", "options:mode=af_packet", f"ofport_request={number}"),
            )
            options = {"number": str(number), "iface": pair.far}
            self.ports.append(PortSpec(name=f"p{number}", kind=PortKind.OPENFLOW, options=options))

    def connect(self, target: str) -> None:
        """Gives the bridge a controller."""
        self.switch.vsctl("set-controller", self.bridge, target)

    def settings(self) -> dict[str, Any]:
        """What node.yaml says of it: two ports of the node, all others are wires for VNFs."""
        tcp = free_port()
        self.connect(f"ptcp:{tcp}:127.0.0.1")
        wires = (f"{p.options['number']}={p.options['iface']}" for p in self.ports[2:])
        return {
            "switch": "openflow",
            "switch_options": {"address": f"tcp:127.0.0.1:{tcp}", "vnf-ports": " ".join(wires)},
            "ports": [
                {"name": f"p{n}", "kind": "openflow", "options": port.options}
                for n, port in enumerate(self.ports[:2])
            ],
        }


@contextmanager
def theirs(place: Path, ports: int = 2) -> Iterator[Theirs]:
    """It runs below `place`."""
    place.mkdir(exist_ok=True)
    with ExitStack() as stack:
        switch = stack.enter_context(running_switch(place, extra=("--no-huge",)))
        yield Theirs(switch, stack, ports)
