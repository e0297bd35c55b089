# SPDX-License-Identifier: Apache-2.0
"""Driver of headrace-switch, by the same OVSDB and OpenFlow as Open vSwitch.

Additions are the port types memif and shm, and the control socket with cycles by stage.
"""

import time
from pathlib import Path

from headrace.machine.processes import Supervisor
from headrace.machine.programs import ProgramMissing, find_program
from headrace.protocols.control import ControlError, call
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
    mask_of,
)
from headrace.switches.direct_links import DirectLink
from headrace.switches.ovs_common import OvsFamilyDriver, dpdk_options, vhost_options


class HeadraceDriver(OvsFamilyDriver):
    """The compiled OpenFlow switch of this project."""

    name = "headrace"
    waits_for_database = True
    capabilities = Capabilities(
        port_kinds=(
            PortKind.MEMIF,
            PortKind.VHOST_USER,
            PortKind.DPDK,
            PortKind.TAP,
            PortKind.SYSTEM,
            PortKind.SHM,
        ),
        vnf_kinds=(
            PortKind.MEMIF,
            PortKind.VHOST_USER,
            PortKind.SHM,
            PortKind.VETH,
            PortKind.PATCH,
        ),
        end_points=("interface", "vlan", "internal", "host-stack", "management", *TUNNELS),
        actions=(*OPENFLOW_ACTIONS, "controller", "set_queue"),
        control_socket=True,
        keeps_flows=True,
    )

    def __init__(self, settings: SwitchSettings, supervisor: Supervisor) -> None:
        super().__init__(settings, supervisor)
        self.control: Path = self.directory / "headrace-switch.ctl"

    def _daemon(self) -> list[str]:
        try:
            program = find_program("headrace-switch")
        except ProgramMissing as error:
            raise SwitchError(str(error)) from error
        command = [
            str(program),
            "--db",
            f"unix:{self.socket}",
            "--rundir",
            str(self.directory),
            "--ctl",
            str(self.control),
            "--cpu-mask",
            mask_of(self.settings.cores),
            "--control-cpu",
            str(self.settings.control_cores[0]),
            "--mem",
            str(self.settings.memory_mb),
            "--file-prefix",
            self.settings.named(self.settings.prefix),
        ]
        if self.settings.pci:
            command.append("--pci")
        for plugin in self.settings.plugins:
            command += ["--eal-arg", "-d", "--eal-arg", str(plugin)]
        return command if self.settings.hugepages else [*command, "--no-huge"]

    def _other_config(self) -> dict[str, str]:
        return {
            "pmd-cpu-mask": mask_of(self.settings.cores),
            "pmd-maxsleep": str(self.settings.max_sleep_us),
        }

    def _interface(self, port: PortSpec) -> tuple[str, dict[str, str]]:
        match port.kind:
            case PortKind.MEMIF:
                return "memif", dict(port.options)
            case PortKind.VHOST_USER:
                return "dpdkvhostuserclient", vhost_options(port)
            case PortKind.SHM:
                return "shm", {k: v for k, v in port.options.items() if k != "socket"}
            case PortKind.DPDK:
                return "dpdk", dpdk_options(port)
            case PortKind.TAP:
                return "tap", {}
            case PortKind.VETH:
                # The peer leaves checksums to the device, which only packet sockets can tell.
                return "system", {"mode": "af_packet"}
            case PortKind.GRE | PortKind.VXLAN | PortKind.GTPU:
                return port.kind.value, {
                    key: value for key, value in port.options.items() if key != "local_prefix"
                }
            case _:
                return "system", {}

    def _has_local(self, lsi: str) -> bool:
        """LSI-0 alone, for tunnels: taps of many graphs would cost the kernel and the workers."""
        return lsi == f"{self.settings.prefix}-0"

    def attach(self, port: PortSpec) -> Attach:
        """See SwitchDriver; of a port by shared memory, the arguments of headrace-traffic."""
        if port.kind is PortKind.SHM:
            return Attach(devargs=f"shm,socket={port.options['socket']},port={port.name}")
        return super().attach(port)

    async def cycles(self) -> SwitchCycles:
        """See SwitchDriver."""
        try:
            answer = await call(self.control, "cycles")
        except ControlError as error:
            raise SwitchError(f"headrace-switch: {error}") from error
        workers = tuple(
            WorkerCycles(
                core=worker["cpu"],
                busy_cycles=worker["busy_cycles"],
                idle_cycles=worker["idle_cycles"],
                packets=worker["packets"],
                rounds=worker["polls"],
                busy_rounds=worker["busy_polls"],
                bursts=sum(queue["bursts"] for queue in worker["queues"]),
                full_bursts=sum(queue["full_bursts"] for queue in worker["queues"]),
            )
            for worker in answer["workers"]
        )
        return SwitchCycles(
            switch=self.name,
            approximate=False,
            source="headrace-switch cycles",
            tsc_hz=float(answer["tsc_hz"]),
            at_ns=time.monotonic_ns(),
            workers=workers,
        )

    async def direct_links(self) -> list[DirectLink]:
        """See HasDirectLinks."""
        try:
            answer = await call(self.control, "links")
        except ControlError as error:
            raise SwitchError(f"headrace-switch: {error}") from error
        return [
            DirectLink(
                lsi=link["lsi"],
                port=link["port"],
                to=link["to"],
                state=link["state"],
                packets=link["packets"],
                bytes=link["octets"],
                reason=link["reason"],
            )
            for link in answer["links"]
        ]
