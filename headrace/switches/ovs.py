# SPDX-License-Identifier: Apache-2.0
"""Driver of Open vSwitch without DPDK: the kernel's datapath, or the daemon's own (`netdev`).

`switch_options: {datapath: kernel}` or `userspace` says which; by default it is the kernel's where
the kernel has one. The kernel's costs softirq time and is seen only so; the daemon's own runs in
the daemon's main thread, which sleeps when nothing comes.
"""

import asyncio
import os
import time
from collections.abc import Collection, Sequence
from pathlib import Path

from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.generic import GenericNetlinkSocket

from headrace.machine.processes import Supervisor
from headrace.machine.tsc import tsc_hz
from headrace.switches.base import (
    OPENFLOW_ACTIONS,
    TUNNELS,
    Attach,
    Capabilities,
    PortKind,
    PortSpec,
    SwitchCycles,
    SwitchError,
    SwitchSettings,
    WorkerCycles,
)
from headrace.switches.ovs_vswitchd import VswitchdDriver
from headrace.switches.softirq import CLOCK_TICKS_HZ, softirq_of
from headrace.switches.veth import compute_checksums, device_names, wait_until_up
from headrace.switches.wire_bridge import join_tap, part_tap, parted, tap_of


class OvsDriver(VswitchdDriver):
    """Open vSwitch as distributions have it."""

    name = "ovs"
    program = "/usr/lib/openvswitch-switch/ovs-vswitchd"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH, PortKind.SYSTEM),
        vnf_kinds=(PortKind.VETH, PortKind.PATCH, PortKind.TAP),
        end_points=("interface", "vlan", "internal", "host-stack", "management", *TUNNELS),
        polls=False,
    )

    def __init__(self, settings: SwitchSettings, supervisor: Supervisor) -> None:
        super().__init__(settings, supervisor)
        asked = settings.options.get("datapath", "auto")
        if asked not in ("auto", "kernel", "userspace"):
            text = f"switch_options.datapath: {asked!r} is none of auto, kernel, userspace"
            raise SwitchError(text)
        self._asked = asked
        self._in_kernel = asked != "userspace" and kernel_has_datapath()
        self.datapath_type = "system" if self._in_kernel else "netdev"
        if self._in_kernel:
            plain = [kind for kind in self.capabilities.end_points if kind != "gtpu"]
            # The daemon's own datapath sends by packet sockets, which know no queues.
            update = {"end_points": tuple(plain), "actions": (*OPENFLOW_ACTIONS, "set_queue")}
            self.capabilities = self.capabilities.model_copy(update=update)

    async def start(self) -> bool:
        """See SwitchDriver.

        Raises:
            SwitchError: as in OvsProcesses; or the kernel's datapath is asked for and not there.
        """
        if self._asked == "kernel" and not self._in_kernel:
            raise SwitchError(
                "ovs: this kernel has no Open vSwitch datapath; load the module openvswitch, or "
                "write switch_options: {datapath: userspace}"
            )
        return await super().start()

    def _cores(self) -> tuple[int, ...]:
        return self.settings.cores

    def _other_config(self) -> dict[str, str]:
        return {}

    async def add_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver: a tap is joined with a pair's far end by a bridge of the kernel.

        So it stays, and the machine that has it open, when the daemon's namespace has gone.
        """
        await super().add_port(lsi, _pair_for(port))
        if port.kind not in (PortKind.VETH, PortKind.TAP):
            return
        try:
            if not self._in_kernel:
                # The daemon's own datapath does not compute what the kernel leaves to its devices.
                await asyncio.to_thread(compute_checksums, self._far_end(_pair_for(port)))
            if port.kind is PortKind.TAP:
                far = self._far_end(_pair_for(port))
                await asyncio.to_thread(join_tap, self.settings.prefix, port, far)
        except (OSError, NetlinkError) as error:
            raise SwitchError(f"port {port.name}: {error}") from error

    async def remove_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        if port.kind is PortKind.TAP:
            await asyncio.to_thread(part_tap, self.settings.prefix, port)
        await super().remove_port(lsi, _pair_for(port))

    def attach(self, port: PortSpec) -> Attach:
        """See SwitchDriver."""
        if port.kind is PortKind.TAP:
            return Attach(iface=tap_of(self.settings.prefix, port))
        return super().attach(port)

    async def wait_for_links(self, ports: Sequence[PortSpec]) -> None:
        """See SwitchDriver: of taps, too, which are up while a machine has them open."""
        await super().wait_for_links(ports)
        taps = [tap_of(self.settings.prefix, p) for p in ports if p.kind is PortKind.TAP]
        try:
            await asyncio.to_thread(wait_until_up, taps)
        except (OSError, NetlinkError) as error:
            raise SwitchError(f"ovs: {error}") from error

    async def missing(self, ports: Collection[str]) -> set[str]:
        """See SwitchDriver: also without its tap, or the bridge that joins it."""
        gone = await super().missing(ports)
        there = await asyncio.to_thread(device_names)
        return gone | parted(self.settings.prefix, set(ports), there)

    async def cycles(self) -> SwitchCycles:
        """See SwitchDriver: the daemon's CPU time, or softirq time of the node's cores."""
        hz = tsc_hz()
        cores = sorted({*self.settings.cores, *self.settings.control_cores})
        if self._in_kernel:
            found = softirq_of(cores, hz)
            workers, source, resolution = found.workers, found.source, found.resolution_cycles
        else:
            workers, source = (self._daemon_time(hz),), "CPU time of ovs-vswitchd"
            resolution = hz / CLOCK_TICKS_HZ
        return SwitchCycles(
            switch=self.name,
            approximate=True,
            source=source,
            tsc_hz=hz,
            at_ns=time.monotonic_ns(),
            workers=workers,
            resolution_cycles=resolution,
        )

    def _daemon_time(self, hz: float) -> WorkerCycles:
        """What the daemon has used, and what was left of one core since it started (proc(5))."""
        process = self.supervisor.find(self.daemon_process)
        if process is None:
            raise SwitchError("ovs has ended; the node will start it again")
        text = Path(f"/proc/{process.pid}/stat").read_text()
        fields = text[text.rindex(")") + 2 :].split()
        used = sum(map(int, fields[11:13]))  # utime and stime
        uptime = float(Path("/proc/uptime").read_text().split()[0]) * os.sysconf("SC_CLK_TCK")
        idle = max(0.0, uptime - int(fields[19]) - used)
        per_tick = hz / os.sysconf("SC_CLK_TCK")
        return WorkerCycles(
            core=self.settings.cores[0],
            busy_cycles=round(used * per_tick),
            idle_cycles=round(idle * per_tick),
            packets=0,
        )


def _pair_for(port: PortSpec) -> PortSpec:
    """What the daemon gets for a port: of a tap the pair that it is joined with."""
    if port.kind is not PortKind.TAP:
        return port
    return port.model_copy(update={"kind": PortKind.VETH, "options": {}})


def kernel_has_datapath() -> bool:
    """Whether the kernel has the generic netlink family of Open vSwitch's datapath."""
    with GenericNetlinkSocket() as netlink:
        try:
            netlink.bind("ovs_datapath", None)
        except (NetlinkError, KeyError):
            return False
    return True
