# SPDX-License-Identifier: Apache-2.0
"""Driver of OVS-DPDK: Debian's ovs-vswitchd-dpdk with the userspace datapath, PMD threads pinned.

The daemon runs in a separate network namespace. Its datapath always creates kernel tap devices
(`ovs-netdev` and one for each bridge), whose names would clash with those of another Open vSwitch,
and which would remain after the daemon exits; in a namespace neither happens. The ports used here
need no kernel device.

Cycles and rounds come from the daemon's unixctl commands (headrace/protocols/pmd.py); the
counters increase from the start of the daemon, so readings are subtracted and never reset.
"""

import asyncio
import time

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from headrace.machine.processes import Supervisor
from headrace.machine.tsc import tsc_hz
from headrace.protocols.pmd import PERF, STATS, parse_pmd
from headrace.switches.base import (
    TUNNELS,
    Capabilities,
    PortKind,
    PortSpec,
    SwitchCycles,
    SwitchError,
    SwitchSettings,
    WorkerCycles,
    mask_of,
)
from headrace.switches.jsonrpc import JsonRpc, RpcError
from headrace.switches.ovs_common import OvsFamilyDriver, dpdk_options
from headrace.switches.ovs_processes import DAEMON_PROCESS
from headrace.switches.veth import compute_checksums, inside

PROGRAM = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"


class OvsDpdkDriver(OvsFamilyDriver):
    """OVS with the DPDK datapath."""

    name = "ovs-dpdk"
    capabilities = Capabilities(
        port_kinds=(
            PortKind.VHOST_USER,
            PortKind.DPDK,
        ),
        vnf_kinds=(PortKind.VHOST_USER, PortKind.VETH),
        end_points=("interface", "vlan", "internal", "host-stack", "management", *TUNNELS),
    )

    def __init__(self, settings: SwitchSettings, supervisor: Supervisor) -> None:
        super().__init__(settings, supervisor)
        self._control = self.directory / "vswitchd.ctl"

    def _daemon(self) -> list[str]:
        # Without the kernel datapath: that of a system Open vSwitch is not touched.
        return [
            "/usr/bin/unshare",
            "--net",
            PROGRAM,
            f"unix:{self.socket}",
            f"--unixctl={self._control}",
            "--disable-system",
            "--verbose=console:info",
            "--verbose=syslog:off",
        ]

    def _other_config(self) -> dict[str, str]:
        megabytes = self.settings.memory_mb
        common = {
            "dpdk-init": "true",
            "pmd-cpu-mask": mask_of(self.settings.cores),
            "dpdk-lcore-mask": mask_of(self.settings.control_cores),
            "pmd-maxsleep": str(self.settings.max_sleep_us),
        }
        no_pci = "" if self.settings.pci else " --no-pci"
        plugins = "".join(f" -d {plugin}" for plugin in self.settings.plugins)
        prefix = f"--file-prefix={self.settings.prefix}{no_pci}{plugins}"
        if self.settings.hugepages:
            return {
                **common,
                "dpdk-socket-mem": str(megabytes),
                "dpdk-socket-limit": str(megabytes),
                "dpdk-extra": f"{prefix} --huge-unlink=always",
            }
        # OVS adds --in-memory, which EAL does not allow with --no-huge, except with --legacy-mem.
        return {**common, "dpdk-extra": f"{prefix} --no-huge --legacy-mem -m {megabytes}"}

    def _interface(self, port: PortSpec) -> tuple[str, dict[str, str]]:
        match port.kind:
            case PortKind.VHOST_USER:
                return "dpdkvhostuserclient", {"vhost-server-path": port.options["path"]}
            case PortKind.VETH:
                return "system", {}
            case PortKind.GRE | PortKind.VXLAN | PortKind.GTPU:
                return port.kind.value, {
                    key: value
                    for key, value in port.options.items()
                    if key not in ("local_prefix", "underlay", "gateway")
                }
            case _:
                return "dpdk", dpdk_options(port)

    async def add_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        if port.kind in TUNNELS.values():
            try:
                await asyncio.to_thread(inside, self._namespace(), lambda: _give_address(port))
            except (OSError, NetlinkError) as error:
                raise SwitchError(f"port {port.name}: {error}") from error
        await super().add_port(lsi, port)
        if port.kind is PortKind.VETH:
            # This datapath does not compute what the kernel leaves to its devices.
            await asyncio.to_thread(compute_checksums, self._far_end(port.name))

    def _namespace(self) -> str | None:
        process = self.supervisor.find(DAEMON_PROCESS)
        if process is None:
            raise SwitchError(f"{self.name} has ended; the node will start it again")
        return f"/proc/{process.pid}/ns/net"

    def _programs(self) -> list[str]:
        return [PROGRAM]

    async def _unixctl(self, command: str) -> str:
        try:
            rpc = await JsonRpc.connect(self._control)
            try:
                return str(await rpc.request(command))
            finally:
                await rpc.close()
        except RpcError as error:
            raise SwitchError(f"ovs-dpdk: {error}") from error

    async def version(self) -> str:
        """See SwitchDriver."""
        first, *more = (await self._unixctl("version")).splitlines()
        dpdk = next((line for line in more if line.startswith("DPDK")), "")
        return f"{self.name} {first.rsplit(' ', 1)[-1]}{', ' if dpdk else ''}{dpdk}"

    async def cycles(self) -> SwitchCycles:
        """See SwitchDriver."""
        stats, perf = await self._unixctl(STATS), await self._unixctl(PERF)
        return SwitchCycles(
            switch=self.name,
            approximate=False,
            source=f"{STATS}, {PERF}",
            tsc_hz=tsc_hz(),
            at_ns=time.monotonic_ns(),
            workers=workers_of(stats, perf),
        )


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


def workers_of(stats: str, perf: str) -> tuple[WorkerCycles, ...]:
    """The PMD threads in the output of both commands, without the main thread.

    A transmitted batch stands for a received burst, which is not counted: each burst leaves as a
    batch for every port that its packets go to.
    """
    return tuple(
        WorkerCycles(
            core=thread.core,
            busy_cycles=thread.busy_cycles,
            idle_cycles=thread.idle_cycles,
            packets=thread.packets,
            rounds=thread.iterations,
            busy_rounds=thread.busy_iterations,
            bursts=thread.tx_batches,
        )
        for thread in parse_pmd(stats, perf)
    )
