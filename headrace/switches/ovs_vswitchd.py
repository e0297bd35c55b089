# SPDX-License-Identifier: Apache-2.0
"""What the drivers of Open vSwitch's own daemon, ovs-vswitchd, have in common.

The daemon runs in a network namespace of its own. Its datapaths make kernel devices (`ovs-netdev`
or `ovs-system`, and one for each bridge), whose names would clash with those of another Open
vSwitch, and which would remain after the daemon exits; in a namespace neither happens. What leads
out of there are veth pairs and sockets; an interface that exists goes there, and comes back.
"""

import asyncio
import os
from collections.abc import Iterable, Sequence

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from headrace.switches.base import TUNNELS, PortKind, PortSpec, SwitchError
from headrace.switches.jsonrpc import JsonRpc, RpcError
from headrace.switches.ovs_common import OvsFamilyDriver
from headrace.switches.rules import Rule
from headrace.switches.veth import device_names, inside


class VswitchdDriver(OvsFamilyDriver):
    """ovs-vswitchd; a subclass names the program and the kinds of ports."""

    program: str

    def _daemon(self) -> list[str]:
        return [
            "/usr/bin/unshare",
            "--net",
            self.program,
            f"unix:{self.socket}",
            f"--unixctl={self._control}",
            "--verbose=console:info",
            "--verbose=syslog:off",
        ]

    def _programs(self) -> list[str]:
        return [self.program]

    @property
    def _control(self) -> str:
        return str(self.directory / "vswitchd.ctl")

    def _interface(self, port: PortSpec) -> tuple[str, dict[str, str]]:
        match port.kind:
            case PortKind.VETH | PortKind.SYSTEM:
                return "system", {}
            case PortKind.GRE | PortKind.VXLAN | PortKind.GTPU:
                return port.kind.value, {
                    key: value
                    for key, value in port.options.items()
                    if key not in ("local_prefix", "underlay", "gateway")
                }
            case _:
                raise SwitchError(f"port {port.name}: {self.name} has no {port.kind} ports")

    async def add_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver: an interface that exists is taken into the daemon's namespace."""
        try:
            if port.kind in TUNNELS.values():
                await asyncio.to_thread(inside, self._namespace(), lambda: _give_address(port))
            if port.kind is PortKind.SYSTEM:
                await asyncio.to_thread(_take, port.name, self._namespace())
        except (OSError, NetlinkError) as error:
            raise SwitchError(f"port {port.name}: {error}") from error
        await super().add_port(lsi, port)

    async def remove_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver: an interface that was taken comes back."""
        await super().remove_port(lsi, port)
        if port.kind is PortKind.SYSTEM:
            await self._give_back(port.name)

    async def install_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver: in force when the datapath's cached flows have followed, too."""
        await super().install_rules(lsi, rules)
        await self._unixctl("revalidator/wait")

    async def remove_rules(self, lsi: str, rules: Sequence[Rule]) -> None:
        """See SwitchDriver."""
        await super().remove_rules(lsi, rules)
        await self._unixctl("revalidator/wait")

    async def stop(self) -> None:
        """See SwitchDriver: interfaces that were taken come back first."""
        if self.supervisor.find(self.daemon_process) is not None:
            try:
                rows = await self._select("Interface", ["name"], [["type", "==", "system"]])
            except SwitchError:
                rows = []  # without its database the switch knows nothing of its ports
            own = f"{self.settings.prefix}g"
            await self._give_back(*(r["name"] for r in rows if not r["name"].startswith(own)))
        await super().stop()

    async def _give_back(self, *interfaces: str) -> None:
        try:
            namespace = self._namespace()
        except SwitchError:
            return  # its namespace has ended with it, and the kernel has put them back
        try:
            await asyncio.to_thread(_put_back, interfaces, namespace)
        except (OSError, NetlinkError) as error:
            raise SwitchError(f"{self.name}: {', '.join(interfaces)}: {error}") from error

    def _namespace(self) -> str:
        process = self.supervisor.find(self.daemon_process)
        if process is None:
            raise SwitchError(f"{self.name} has ended; the node will start it again")
        return f"/proc/{process.pid}/ns/net"

    async def _unixctl(self, command: str) -> str:
        try:
            rpc = await JsonRpc.connect(self.directory / "vswitchd.ctl")
            try:
                return str(await rpc.request(command))
            finally:
                await rpc.close()
        except RpcError as error:
            raise SwitchError(f"{self.name}: {error}") from error

    async def version(self) -> str:
        """See SwitchDriver."""
        first, *more = (await self._unixctl("version")).splitlines()
        dpdk = next((line for line in more if line.startswith("DPDK")), "")
        return f"{self.name} {first.rsplit(' ', 1)[-1]}{', ' if dpdk else ''}{dpdk}"


def _give_address(tunnel: PortSpec) -> None:
    """Gives the underlay's own interface a tunnel's address, and the route to its far end.

    OVS finds the way of outer packets by the kernel's addresses and routes, in its namespace.
    """
    options = tunnel.options
    with IPRoute() as kernel:
        (index,) = kernel.link_lookup(ifname=options["underlay"])
        kernel.link("set", index=index, state="up")
        address, prefix = options["local_ip"], int(options["local_prefix"])
        kernel.addr("replace", index=index, address=address, prefixlen=prefix)
        if "gateway" in options:
            remote = options["remote_ip"]
            kernel.route("replace", dst=remote, gateway=options["gateway"], oif=index)


def _take(interface: str, namespace: str) -> None:
    """Moves an interface of ours into a namespace, if it is not there yet, and sets it up.

    Raises:
        SwitchError: this machine has none of that name.
    """
    if interface not in device_names(namespace):
        with IPRoute() as kernel:
            if not kernel.link_lookup(ifname=interface):
                raise SwitchError(f"port {interface}: this machine has no interface {interface}")
            kernel.link("set", ifname=interface, net_ns_fd=namespace)

    def up() -> None:
        with IPRoute() as kernel:
            kernel.link("set", ifname=interface, state="up")

    inside(namespace, up)


def _put_back(interfaces: Iterable[str], namespace: str) -> None:
    ours = os.open("/proc/self/ns/net", os.O_RDONLY)

    def move() -> None:
        with IPRoute() as kernel:
            for interface in interfaces:
                for index in kernel.link_lookup(ifname=interface):
                    kernel.link("set", index=index, net_ns_fd=ours)

    try:
        inside(namespace, move)
    finally:
        os.close(ours)
