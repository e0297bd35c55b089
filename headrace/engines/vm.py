# SPDX-License-Identifier: Apache-2.0
"""The engine for VNFs that are virtual machines, by QEMU.

QEMU itself is started, and asked by QMP (library qemu.qmp), rather than libvirt. So a machine is a
process as every other VNF's: the supervisor finds it again and limits it, it has a user of its own,
and it inherits as open files what it may use (disk, taps, the graph's shared memory) instead of the
right to open it. Of what libvirt has beside that (storage pools, networks of its own, a daemon with
root's rights) a node has no use; the graph's shared memory, and NICs without MSI-X, which QEMU 7.2
without KVM needs, its domains would have by raw arguments only.

What to boot is in the template's `configuration` (vm_image.py). Ports are of three kinds:

* vhost-user: QEMU makes the sockets and the switch connects, so switch and machine may be restarted
  apart from each other.
* tap: an interface of the kernel, which the machine inherits as an open file; with KVM the kernel
  itself moves the packets, where it can (vhost-net).
* shm: each region is one ivshmem device, after the NICs. Which ports are in which device the
  machine reads from QEMU's firmware configuration, item `opt/headrace/ports`:
  `{"0000:00:04.0": {"<port in the graph>": "<name in the region>"}}`. A machine whose switch was
  restarted holds a dead region, so it is started anew.

Beside its ports a machine may be given functions of the host's PCI bus (`pci` of its image): NICs,
or SR-IOV functions of one, whose packets pass the switch by. They come after all other devices. The
node says by `claim` whether a function may be given away (bound to vfio-pci, nobody else's).

A machine forwards when its operating system does, which only that knows: an image says by `ready`
what it writes on its console then. Without `ready` a machine counts as up when it runs.
"""

import asyncio
import hashlib
import json
import shutil
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headrace.engines.base import EngineError, Observed, VnfPort, VnfSpec
from headrace.engines.confinement import Confinement
from headrace.engines.cpu_time import cycles_as_cpu_time
from headrace.engines.execution import Executed, NotRunning
from headrace.engines.forwarding import Forwarder
from headrace.engines.guest_agent import GuestAgent
from headrace.engines.observation import observe
from headrace.engines.qemu import (
    PROGRAM,
    Device,
    PciFunction,
    SharedMemory,
    Tap,
    VhostUser,
    VirtualMachine,
    pci_address,
)
from headrace.engines.qmp import QmpError, connected
from headrace.engines.shared_memory import AttachError
from headrace.engines.vm_image import Image
from headrace.engines.vm_management import as_forwarded, bring_up_loopback, listen
from headrace.engines.vm_opened import Opened, attach, open_all, shared_ports
from headrace.machine.disk_images import ImageError
from headrace.machine.numa import node_of
from headrace.machine.processes import ProcessError, Supervisor, write_atomically
from headrace.switches.base import PortKind

Claim = Callable[[str, VnfSpec], str | None]
"""Why the PCI function of this address cannot be the VNF's, with the remedy; None if it can."""


def nothing_given(address: str, vnf: VnfSpec) -> str:
    """A `Claim` that refuses: for who has no PCI functions to give away."""
    return f"{address} is not this node's to give to {vnf.vnf}"


class VmEngine:
    """Virtual machines."""

    name = "vm"
    port_kinds: tuple[PortKind, ...] = (PortKind.VHOST_USER, PortKind.SHM, PortKind.TAP)

    def __init__(
        self,
        rundir: Path,
        supervisor: Supervisor,
        hugepages: bool,
        claim: Claim = nothing_given,
        confinement: Confinement | None = None,
    ) -> None:
        self._confinement = confinement or Confinement(rundir)
        self._supervisor = supervisor
        self._hugepages = hugepages
        self._claim = claim
        self._forwarder = Forwarder(supervisor)
        # A port has one user at a time: questions of probes and operators follow each other.
        self._agents: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    def _process(self, vnf: VnfSpec) -> str:
        return f"vnf-{vnf.name}"

    def _qmp(self, vnf: VnfSpec) -> Path:
        """QEMU's control socket."""
        return self._confinement.own(vnf) / "qmp"

    def _agent(self, vnf: VnfSpec) -> Path:
        """QEMU's end of the port of the agent in the guest."""
        return self._confinement.own(vnf) / "agent"

    def console(self, vnf: VnfSpec) -> Path:
        """What the machine has written on its first serial port."""
        return self._confinement.own(vnf) / "console"

    def image(self, vnf: VnfSpec) -> Image:
        """What the VNF boots.

        Raises:
            EngineError: the template's configuration is wrong; names the key.
        """
        try:
            return Image.model_validate(vnf.configuration)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in ("configuration", *first["loc"]))
            raise EngineError(f"VNF {vnf.vnf}: {place}: {first['msg']}") from error

    async def check(self, vnf: VnfSpec) -> None:
        """See Engine."""
        await asyncio.to_thread(self.image, vnf)

    def machine(
        self,
        vnf: VnfSpec,
        image: Image,
        opened: Opened,
    ) -> VirtualMachine:
        """The machine that the VNF is, with what is open for it."""
        regions = opened.regions
        devices: list[Device] = [
            _nic(vnf, port, opened, image.queues)
            for port in vnf.ports
            if port.switch_port.kind is not PortKind.SHM
        ]
        placed: dict[str, dict[str, str]] = {}
        for socket, attachment in regions.items():
            placed[pci_address(len(devices))] = {
                port.id: port.switch_port.name for port in shared_ports(vnf)[socket]
            }
            devices.append(SharedMemory(attachment.region, attachment.size))
        devices += [PciFunction(address) for address in image.pci]
        return VirtualMachine(
            name=vnf.name,
            memory_mb=vnf.memory_mb,
            qmp=self._qmp(vnf),
            console=self.console(vnf),
            devices=devices,
            cpus=image.cpus,
            accelerator=image.uses,
            hugepages=self._hugepages,
            disk=image.disk,
            disk_format=image.format,
            disk_descriptor=opened.disk,
            kernel=image.kernel,
            initrd=image.initrd,
            command_line=image.command_line,
            firmware={"opt/headrace/ports": json.dumps(placed)} if placed else {},
            uefi=image.firmware == "uefi",
            seed_descriptor=opened.seed,
            memory_node=node_of(vnf.cores) if image.numa == "auto" else None,
            management_mac=_own_mac(vnf, "management") if image.management else None,
            guest_agent=self._agent(vnf) if image.guest_agent else None,
        )

    async def ensure(self, vnf: VnfSpec) -> None:
        """See Engine."""
        image = self.image(vnf)
        if shutil.which(PROGRAM) is None:
            raise EngineError(f"VNF {vnf.vnf}: {PROGRAM} is not installed; run `make setup`")
        await asyncio.to_thread(lambda: image.uses)  # the first time, that takes a trial
        up = self._supervisor.runs(self._process(vnf), self._made_from(vnf))
        if not up or await self._holds_dead_regions(vnf):
            await self.stop(vnf)  # also what a killed one left: its sockets would be in the way
            await self._start(vnf, image)
        deadline = asyncio.get_running_loop().time() + image.boot_s
        while (missing := await self._missing(vnf, image)) is not None:
            if self._supervisor.find(self._process(vnf)) is None:
                words = self._supervisor.last_words(self._process(vnf))
                await self.stop(vnf)
                raise EngineError(f"VNF {vnf.vnf}: QEMU ended while starting: {words}")
            if asyncio.get_running_loop().time() > deadline:
                await self.stop(vnf)
                raise EngineError(f"VNF {vnf.vnf}: {missing} after {image.boot_s:g} s")
            await asyncio.sleep(0.05)
        await self._forward(vnf)

    async def _forward(self, vnf: VnfSpec) -> None:
        """Carries the forwarded ports of a machine that runs; a failure of that ends it."""
        process = self._supervisor.find(self._process(vnf))
        forwarded = as_forwarded(vnf)
        if process is None or self._forwarder.runs(forwarded, process):
            return
        try:
            if vnf.forwards:
                await asyncio.to_thread(bring_up_loopback, process.pid)
                async with connected(self._qmp(vnf)) as qmp:
                    await listen(qmp, vnf.forwards)
            await self._forwarder.ensure(forwarded, process)
        except (QmpError, OSError) as error:
            await self.stop(vnf)
            raise EngineError(f"VNF {vnf.vnf}: unify-control: {error}") from error
        except EngineError:
            await self.stop(vnf)
            raise

    async def _start(self, vnf: VnfSpec, image: Image) -> None:
        for address in image.pci:
            refusal = await asyncio.to_thread(self._claim, address, vnf)
            if refusal is not None:
                raise EngineError(f"VNF {vnf.vnf}: configuration.pci: {refusal}")
        await asyncio.to_thread(self._confinement.prepare, vnf)
        confined = await asyncio.to_thread(
            self._confinement.confined, vnf if not image.pci else _as_node(vnf), _kvm_group(image)
        )
        try:
            with ExitStack() as stack:
                opened = await open_all(stack, vnf, image)
                program, *words = self.machine(vnf, image, opened).arguments()
                arguments = [shutil.which(program) or program, *words]
                await self._supervisor.ensure(
                    self._process(vnf),
                    [*(confined.command() if confined else ()), *arguments],
                    cores=vnf.cores,
                    environment=self._confinement.environment(vnf),
                    bare=confined is not None,
                    digest=self._made_from(vnf),
                    inherit=opened.descriptors,
                )
        except (ProcessError, AttachError, ImageError, OSError) as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error

    async def _holds_dead_regions(self, vnf: VnfSpec) -> bool:
        """Whether a running machine's ports are free at the switch: then it is another switch."""
        for socket, ports in shared_ports(vnf).items():
            with ExitStack() as stack, suppress(AttachError):
                await attach(stack, socket, ports, attempts=1)
                return True
        return False

    async def _missing(self, vnf: VnfSpec, image: Image) -> str | None:
        """What a starting machine still lacks to forward."""
        try:
            # Refused until the switch serves all ports.
            async with connected(self._qmp(vnf), timeout_s=2.0) as qmp:
                state = (await qmp.execute("query-status"))["status"]
        except QmpError as error:
            return f"it does not run: {error}"
        if state != "running":
            return f"it is {state}"
        if not image.ready:
            return None
        return await asyncio.to_thread(self._not_ready, vnf, image.ready)

    def _not_ready(self, vnf: VnfSpec, text: str) -> str | None:
        """Why the machine is not ready; once it was, its console may be emptied."""
        noted = self._confinement.place(vnf) / "ready"
        process = str(self._supervisor.find(self._process(vnf)))
        if noted.exists() and noted.read_text() == process:
            return None
        if text not in self.console(vnf).read_text(errors="replace"):
            return f"no {text!r} on its console"
        write_atomically(noted, process)
        return None

    async def execute(
        self, vnf: VnfSpec, command: Sequence[str], stdin: bytes = b"", timeout_s: float = 30.0
    ) -> Executed:
        """See Executor: by the agent in the guest, as the agent's user, most often root there."""
        if not self.image(vnf).guest_agent:
            raise EngineError(
                f"VNF {vnf.vnf}: commands need QEMU's agent in the machine; template "
                f"{vnf.template} says by `guest_agent: true` that it runs there"
            )
        if self._supervisor.find(self._process(vnf)) is None:
            raise NotRunning(f"VNF {vnf.vnf}: it does not run")
        try:
            async with self._agents[vnf.name], GuestAgent(self._agent(vnf)) as agent:
                return await agent.execute(command, stdin, timeout_s)
        except EngineError as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error

    async def stop(self, vnf: VnfSpec) -> None:
        """See Engine. The machine is switched off, not asked: it keeps nothing."""
        await self._forwarder.end(vnf)
        try:
            await self._supervisor.end(self._process(vnf))
        except ProcessError as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        await asyncio.to_thread(self._confinement.remove, vnf)
        self._agents.pop(vnf.name, None)

    def _made_from(self, vnf: VnfSpec) -> str:
        """What the supervisor notes of the machine: all that it is made from."""
        return f"{vnf.digest} {'hugepages' if self._hugepages else 'pages'}"

    def running(self, vnf: VnfSpec) -> bool:
        """See Engine: with its forwards."""
        process = self._supervisor.find(self._process(vnf))
        if process is None or not self._supervisor.runs(self._process(vnf), self._made_from(vnf)):
            return False
        return self._forwarder.runs(as_forwarded(vnf), process)

    def observed(self, vnf: VnfSpec) -> Observed | None:
        """See Engine."""
        return observe(self._supervisor.find(self._process(vnf)))

    async def counters(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine: what a machine counts is inside it."""
        del vnf
        return {"ports": {}, "reason": "a virtual machine counts inside; see the switch's ports"}

    async def cycles(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine: the CPU time of QEMU, as the kernel counts it; not cycles of packets."""
        reason = "a virtual machine's cycles are known only as CPU time"
        return await cycles_as_cpu_time(self._supervisor, self._process(vnf), vnf, reason)

    def processes(self, vnf: VnfSpec) -> tuple[str, ...]:
        """See Engine."""
        return (self._process(vnf), *self._forwarder.names(vnf))


def _as_node(vnf: VnfSpec) -> VnfSpec:
    """The same run as the node: VFIO's files are root's."""
    return vnf.model_copy(update={"user": None})


def _kvm_group(image: Image) -> tuple[int, ...]:
    """The group that may use KVM, if the machine is to use it."""
    device = Path("/dev/kvm")
    return (device.stat().st_gid,) if image.uses == "kvm" and device.exists() else ()


def _own_mac(vnf: VnfSpec, port: str) -> str:
    """An address of a port's own name."""
    octets = hashlib.blake2b(f"{vnf.name}/{port}".encode(), digest_size=5).digest()
    return ":".join(f"{octet:02x}" for octet in (0x02, *octets))


def _nic(vnf: VnfSpec, port: VnfPort, opened: Opened, queues: int) -> VhostUser | Tap:
    """The port as a NIC; without an address of the graph's it gets one of its own name."""
    mac = port.mac or _own_mac(vnf, port.id)
    if port.switch_port.kind is PortKind.TAP:
        vhost = opened.vhost.get(port.id)
        return Tap(
            port.switch_port.options["iface"],
            mac,
            vhost=vhost is not None,
            descriptor=opened.taps.get(port.id),
            vhost_descriptor=vhost,
        )
    return VhostUser(Path(port.switch_port.options["path"]), mac, queues=queues)
