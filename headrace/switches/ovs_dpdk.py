# SPDX-License-Identifier: Apache-2.0
"""Driver of OVS-DPDK: Debian's ovs-vswitchd-dpdk with the userspace datapath, PMD threads pinned.

Cycles and rounds come from the daemon's unixctl commands (headrace/protocols/pmd.py); the
counters increase from the start of the daemon, so readings are subtracted and never reset.
"""

import asyncio
import time

from headrace.machine.tsc import tsc_hz
from headrace.protocols.pmd import PERF, STATS, parse_pmd
from headrace.switches.base import (
    TUNNELS,
    Capabilities,
    PortKind,
    PortSpec,
    SwitchCycles,
    WorkerCycles,
    mask_of,
)
from headrace.switches.ovs_common import dpdk_options, vhost_options
from headrace.switches.ovs_vswitchd import VswitchdDriver
from headrace.switches.veth import compute_checksums

PROGRAM = "/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk"


class OvsDpdkDriver(VswitchdDriver):
    """OVS with the DPDK datapath."""

    name = "ovs-dpdk"
    program = PROGRAM
    capabilities = Capabilities(
        port_kinds=(PortKind.VHOST_USER, PortKind.DPDK, PortKind.SYSTEM),
        vnf_kinds=(PortKind.VHOST_USER, PortKind.VETH, PortKind.PATCH),
        end_points=("interface", "vlan", "internal", "host-stack", "management", *TUNNELS),
    )

    def _daemon(self) -> list[str]:
        # Without the kernel datapath: that of a system Open vSwitch is not touched.
        return [*super()._daemon(), "--disable-system"]

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
        prefix = f"--file-prefix={self.settings.named(self.settings.prefix)}{no_pci}{plugins}"
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
                return "dpdkvhostuserclient", vhost_options(port)
            case PortKind.DPDK:
                return "dpdk", dpdk_options(port)
            case _:
                return super()._interface(port)

    async def add_port(self, lsi: str, port: PortSpec) -> None:
        """See SwitchDriver."""
        await super().add_port(lsi, port)
        if port.kind is PortKind.VETH:
            # This datapath does not compute what the kernel leaves to its devices.
            await asyncio.to_thread(compute_checksums, self._far_end(port))

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
