# SPDX-License-Identifier: Apache-2.0
"""The engine for functions of the host's kernel, each in a network namespace of its own.

Function `bridge`: the far ends of the VNF's veth pairs are moved into the namespace and joined
there by a Linux bridge that learns. Nothing polls; what it costs is part of the softirq time.
"""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute, NetNS, netns
from pyroute2.netlink.exceptions import NetlinkError

from headrace.engines.base import EngineError, Observed, VnfSpec
from headrace.switches.base import PortKind
from headrace.switches.veth import FAR_END, device_name, inside, wait_until_up

_BRIDGE = "br0"
FUNCTIONS = ("bridge",)


class NativeEngine:
    """Functions of the kernel in namespaces."""

    name = "native"
    port_kinds: tuple[PortKind, ...] = (PortKind.VETH,)

    def __init__(self, prefix: str) -> None:
        self._prefix = prefix

    async def check(self, vnf: VnfSpec) -> None:
        """See Engine: its functions have no settings."""
        if vnf.function not in FUNCTIONS:
            known = ", ".join(FUNCTIONS)
            raise EngineError(f"VNF {vnf.vnf}: engine native has no {vnf.function}, only {known}")
        if vnf.configuration:
            key = next(iter(vnf.configuration))
            raise EngineError(f"VNF {vnf.vnf}: configuration.{key}: {vnf.function} has no such key")

    async def ensure(self, vnf: VnfSpec) -> None:
        """See Engine."""
        await self.check(vnf)
        try:
            await asyncio.to_thread(self._make, vnf)
        except (NetlinkError, OSError) as error:
            await self.stop(vnf)
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error

    def _make(self, vnf: VnfSpec) -> None:
        if vnf.name not in netns.listnetns():
            netns.create(vnf.name)
        inside(vnf.name, _disable_ipv6)
        with NetNS(vnf.name) as kernel:
            if not kernel.link_lookup(ifname=_BRIDGE):
                kernel.link("add", ifname=_BRIDGE, kind="bridge", br_mcast_snooping=0)
            bridge = kernel.link_lookup(ifname=_BRIDGE)[0]
            for number, port in enumerate(vnf.ports):
                device = f"eth{number}"
                if not kernel.link_lookup(ifname=device):
                    self._move_in(vnf, port.switch_port.name, device)
                index = kernel.link_lookup(ifname=device)[0]
                if port.mac:
                    kernel.link("set", index=index, address=port.mac)
                kernel.link("set", index=index, master=bridge, state="up")
            kernel.link("set", index=bridge, state="up")
        # A member forwards from when its link is up.
        devices = [f"eth{number}" for number in range(len(vnf.ports))]
        inside(vnf.name, lambda: wait_until_up(devices))

    def _move_in(self, vnf: VnfSpec, port: str, device: str) -> None:
        peer = device_name(self._prefix, FAR_END, port)
        with IPRoute() as outside:
            # Not there if an earlier node was killed between the two steps.
            for index in outside.link_lookup(ifname=peer):
                outside.link("set", index=index, net_ns_fd=vnf.name)
        with NetNS(vnf.name) as kernel:
            found = kernel.link_lookup(ifname=peer)
            if not found:
                raise EngineError(
                    f"VNF {vnf.vnf}: device {peer} is gone; delete the graph and deploy it again"
                )
            kernel.link("set", index=found[0], ifname=device)

    async def stop(self, vnf: VnfSpec) -> None:
        """See Engine. The namespace takes the far ends of the pairs with it."""
        if vnf.name in netns.listnetns():
            await asyncio.to_thread(netns.remove, vnf.name)

    def running(self, vnf: VnfSpec) -> bool:
        """See Engine: its namespace is there, the bridge in it, and all its ports joined."""
        if vnf.name not in netns.listnetns():
            return False
        # A thread of its own: pyroute2 has an event loop, which must not be within another one.
        with ThreadPoolExecutor(max_workers=1) as thread:
            return thread.submit(_is_joined, vnf).result()

    def observed(self, vnf: VnfSpec) -> Observed | None:
        """See Engine: a namespace, no process."""
        return Observed(engine=self.name) if vnf.name in netns.listnetns() else None

    async def counters(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine: the kernel's counters of each port, as seen inside."""

        def read() -> dict[str, Any]:
            ports = []
            with NetNS(vnf.name) as kernel:
                for number, port in enumerate(vnf.ports):
                    found = kernel.get_links(ifname=f"eth{number}")
                    values = next(iter(found)).get_attr("IFLA_STATS64")
                    ports.append(
                        {
                            "name": port.id,
                            "rx_packets": values["rx_packets"],
                            "tx_packets": values["tx_packets"],
                            "rx_dropped": values["rx_dropped"],
                            "tx_dropped": values["tx_dropped"],
                        }
                    )
            return {"ports": ports}

        return await asyncio.to_thread(read)

    async def cycles(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine: a kernel function has no cycles of its own to count."""
        return {
            "approximate": True,
            "busy_cycles": None,
            "idle_cycles": None,
            "packets": None,
            "reason": "a native VNF runs in the kernel; its cost is in the switch's softirq time",
        }

    def processes(self, vnf: VnfSpec) -> tuple[str, ...]:
        """See Engine: none."""
        return ()


def _is_joined(vnf: VnfSpec) -> bool:
    """Whether all ports of the VNF are members of its bridge."""
    try:
        with NetNS(vnf.name) as kernel:
            bridges = kernel.link_lookup(ifname=_BRIDGE)
            members = {
                link.get_attr("IFLA_IFNAME")
                for link in kernel.get_links()
                if bridges and link.get_attr("IFLA_MASTER") == bridges[0]
            }
    except (NetlinkError, OSError):
        return False  # it has been removed meanwhile
    return {f"eth{number}" for number in range(len(vnf.ports))} <= members


def _disable_ipv6() -> None:
    """No IPv6, no addresses: the kernel sends no packet of its own into the VNF."""
    for scope in ("all", "default"):
        setting = Path("/proc/sys/net/ipv6/conf") / scope / "disable_ipv6"
        if setting.exists():
            setting.write_text("1")


def remove_namespaces(prefix: str) -> None:
    """Removes every network namespace that a node with this prefix has made."""
    for name in netns.listnetns():
        if name.startswith(f"{prefix}-"):
            netns.remove(name)
