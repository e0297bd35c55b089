# SPDX-License-Identifier: Apache-2.0
"""A tunnel in OVS-DPDK: a tunnel port, and an underlay bridge that terminates the tunnel.

Routes and neighbors come from the kernel's address of the bridge below and from `ovs-appctl
tnl/neigh/set`, so that no address has to be resolved during the measurement.
"""

import subprocess
import time
from pathlib import Path
from typing import Protocol

from headrace.bench.peers.cases.case import SINK, SOURCE, Case, Overlay

BELOW = "hrbelow"


class Tools(Protocol):
    """The tools of an OVS."""

    rundir: Path

    def vsctl(self, *words: str) -> str:
        """Runs ovs-vsctl."""

    def ofctl_on(
        self,
        bridge: str,
        command: str,
        *words: str,
        stdin: str | None = None,
        version: str = "OpenFlow13",
    ) -> str:
        """Runs ovs-ofctl on a bridge."""

    def tool(self, *command: str | Path) -> str:
        """Runs any other tool."""


def remove(ovs: Tools) -> None:
    """Removes the bridge below."""
    ovs.vsctl("--if-exists", "del-br", BELOW)


def clean_up() -> None:
    """Removes the kernel interface of the bridge below, which OVS leaves behind when it exits."""
    words = ["ip", "link", "del", BELOW]
    subprocess.run(words, check=False, capture_output=True)  # noqa: S603


def load(ovs: Tools, case: Case, overlay: Overlay) -> None:
    """Makes both bridges with the case's source, sink, tunnel and rules; groups are select()'s."""
    for bridge in ("br0", BELOW):
        ovs.vsctl(
            *("--if-exists", "del-br", bridge, "--", "add-br", bridge),
            *("--", "set", "bridge", bridge, "datapath_type=netdev", "fail_mode=secure"),
        )
    ovs.vsctl("set", "bridge", BELOW, f'other_config:hwaddr="{overlay.mac}"')
    ports = {
        ("br0", BELOW)[overlay.source_below]: ("source", SOURCE, f"{case.device},size=60"),
        (BELOW, "br0")[overlay.source_below]: ("sink", SINK, "net_null_sink,no-rx=1"),
    }
    for bridge, (name, number, devargs) in ports.items():
        ovs.vsctl(
            *("add-port", bridge, name, "--", "set", "Interface", name, "type=dpdk"),
            *(f"ofport_request={number}", f"options:dpdk-devargs={devargs}"),
        )
    ovs.vsctl(
        *("add-port", "br0", "tunnel", "--", "set", "Interface", "tunnel", "type=vxlan"),
        *(f"ofport_request={overlay.tunnel}", "options:remote_ip=flow", "options:key=flow"),
    )
    ovs.tool("ip", "addr", "replace", f"{overlay.address}/24", "dev", BELOW)
    ovs.tool("ip", "link", "set", BELOW, "up")
    control = str(ovs.rundir / "ovs.ctl")
    deadline = time.monotonic() + 10
    while overlay.address not in ovs.tool("ovs-appctl", "-t", control, "ovs/route/show"):
        if time.monotonic() > deadline:
            raise TimeoutError(f"OVS has not seen the address of {BELOW}")
        time.sleep(0.05)
    for ip, mac in overlay.neighbors:
        ovs.tool("ovs-appctl", "-t", control, "tnl/neigh/set", BELOW, ip, mac)
    for bridge, rules in (("br0", overlay.rules), (BELOW, overlay.rules_below)):
        ovs.ofctl_on(bridge, "del-flows")
        if bridge == "br0" and overlay.groups:
            select(ovs, overlay, next(iter(overlay.groups)))
        ovs.ofctl_on(bridge, "add-flows", "-", stdin="\n".join(rules()) + "\n")


def select(ovs: Tools, overlay: Overlay, groups: str) -> None:
    """Installs one of the overlay's alternatives of groups; selection methods need OpenFlow 1.5."""
    words = [f"add_or_mod {group}" for group in overlay.groups[groups]()]
    text = "\n".join(words) + "\n"
    ovs.ofctl_on("br0", "add-groups", "-", stdin=text, version="OpenFlow15")


def source_bridge(overlay: Overlay) -> str:
    """The bridge that the source is a port of."""
    return BELOW if overlay.source_below else "br0"


def sink_bridge(overlay: Overlay) -> str:
    """The bridge that the sink is a port of."""
    return "br0" if overlay.source_below else BELOW
