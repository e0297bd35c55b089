# SPDX-License-Identifier: Apache-2.0
"""The engine for VNFs that are virtual machines, by QEMU.

What to boot is in the template's `configuration` (`Image`). Ports are of two kinds:

* vhost-user: QEMU makes the sockets and the switch connects, so switch and machine may be restarted
  apart from each other.
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
import os
import shutil
import sys
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from headrace.engines.base import EngineError, Observed, VnfPort, VnfSpec
from headrace.engines.confinement import Confinement
from headrace.engines.cpu_time import cycles_as_cpu_time
from headrace.engines.observation import observe
from headrace.engines.qemu import (
    PROGRAM,
    Device,
    PciFunction,
    SharedMemory,
    VhostUser,
    VirtualMachine,
    pci_address,
    usable_accelerator,
)
from headrace.engines.qmp import QmpError, connected
from headrace.engines.shared_memory import AttachError, Attachment, attached
from headrace.machine.disk_images import ImageError, inspect
from headrace.machine.processes import ProcessError, Supervisor, write_atomically
from headrace.switches.base import PortKind

_ATTACH_ATTEMPTS = 30
_ATTACH_AGAIN_S = 0.1
PciAddress = Annotated[
    str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$", examples=["0000:03:10.0"])
]
"""A function of the host's PCI bus, in the form that sysfs has."""

GRAPH_SETTINGS = frozenset({"boot_s", "cpus", "ready"})
"""The keys of `Image` that may come from a graph: all others name files and devices of the host."""

Claim = Callable[[str, VnfSpec], str | None]
"""Why the PCI function of this address cannot be the VNF's, with the remedy; None if it can."""


def nothing_given(address: str, vnf: VnfSpec) -> str:
    """A `Claim` that refuses: for who has no PCI functions to give away."""
    return f"{address} is not this node's to give to {vnf.vnf}"


class Image(BaseModel):
    """What a virtual machine boots: `disk`, which it does not change, or `kernel` and `initrd`.

    `ready` is a text on its first serial port; within `boot_s` seconds it must come. `auto` takes
    KVM where the machine can (qemu.py). A disk whose `format` is given is opened by the node, so
    the VNF's user need not be able to read it, and must stand alone, without a backing file;
    without `format` QEMU finds it out and opens the file itself. `pci` are functions of the host's
    PCI bus for it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    disk: Path | None = None
    format: Literal["raw", "qcow2"] | None = None
    kernel: Path | None = None
    initrd: Path | None = None
    command_line: str = "console=ttyS0"
    cpus: Annotated[int, Field(ge=1, le=64)] = 1
    accelerator: Literal["auto", "kvm", "tcg"] = "auto"
    ready: str = ""
    boot_s: Annotated[float, Field(gt=0)] = 120.0
    pci: tuple[PciAddress, ...] = ()

    @model_validator(mode="after")
    def _boots(self) -> "Image":
        if (self.disk is None) == (self.kernel is None):
            raise ValueError("give either `disk` or `kernel`")
        if self.format is not None and self.disk is None:
            raise ValueError("`format` is a disk's")
        for file in (self.disk, self.kernel, self.initrd):
            if file is not None and not file.is_file():
                raise ValueError(f"there is no file {file}")
        if len(set(self.pci)) < len(self.pci):
            raise ValueError("`pci` names a function twice")
        return self


class VmEngine:
    """Virtual machines."""

    name = "vm"
    port_kinds: tuple[PortKind, ...] = (PortKind.VHOST_USER, PortKind.SHM)

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

    def _process(self, vnf: VnfSpec) -> str:
        return f"vnf-{vnf.name}"

    def _qmp(self, vnf: VnfSpec) -> Path:
        """QEMU's control socket."""
        return self._confinement.own(vnf) / "qmp"

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
        regions: Mapping[str, Attachment],
        disk: int | None = None,
    ) -> VirtualMachine:
        """The machine that the VNF is; `regions` by their sockets, `disk` the open image."""
        devices: list[Device] = [
            _nic(vnf, port) for port in vnf.ports if port.switch_port.kind is PortKind.VHOST_USER
        ]
        placed: dict[str, dict[str, str]] = {}
        for socket, attachment in regions.items():
            placed[pci_address(len(devices))] = {
                port.id: port.switch_port.name for port in _shared_ports(vnf)[socket]
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
            accelerator=usable_accelerator() if image.accelerator == "auto" else image.accelerator,
            hugepages=self._hugepages,
            disk=image.disk,
            disk_format=image.format,
            disk_descriptor=disk,
            kernel=image.kernel,
            initrd=image.initrd,
            command_line=image.command_line,
            firmware={"opt/headrace/ports": json.dumps(placed)} if placed else {},
        )

    async def ensure(self, vnf: VnfSpec) -> None:
        """See Engine."""
        image = self.image(vnf)
        if shutil.which(PROGRAM) is None:
            raise EngineError(f"VNF {vnf.vnf}: {PROGRAM} is not installed; run `make setup`")
        if not self.running(vnf) or await self._holds_dead_regions(vnf):
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
                regions = {}
                for socket, ports in _shared_ports(vnf).items():
                    regions[socket] = await _attach(stack, socket, ports, _ATTACH_ATTEMPTS)
                disk = _open_disk(stack, image)
                program, *words = self.machine(vnf, image, regions, disk).arguments()
                arguments = [shutil.which(program) or program, *words]
                await self._supervisor.ensure(
                    self._process(vnf),
                    [*(confined.command() if confined else ()), *arguments],
                    cores=vnf.cores,
                    environment=self._confinement.environment(vnf),
                    bare=confined is not None,
                    digest=self._made_from(vnf),
                    inherit=[
                        *(fd for region in regions.values() for fd in region.descriptors),
                        *([disk] if disk is not None else []),
                    ],
                )
        except (ProcessError, AttachError, ImageError, OSError) as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error

    async def _holds_dead_regions(self, vnf: VnfSpec) -> bool:
        """Whether a running machine's ports are free at the switch: then it is another switch."""
        for socket, ports in _shared_ports(vnf).items():
            with ExitStack() as stack, suppress(AttachError):
                await _attach(stack, socket, ports, attempts=1)
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

    async def stop(self, vnf: VnfSpec) -> None:
        """See Engine. The machine is switched off, not asked: it keeps nothing."""
        try:
            await self._supervisor.end(self._process(vnf))
        except ProcessError as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        await asyncio.to_thread(self._confinement.remove, vnf)

    def _made_from(self, vnf: VnfSpec) -> str:
        """What the supervisor notes of the machine: all that it is made from."""
        return f"{vnf.digest} {'hugepages' if self._hugepages else 'pages'}"

    def running(self, vnf: VnfSpec) -> bool:
        """See Engine."""
        return self._supervisor.runs(self._process(vnf), self._made_from(vnf))

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
        return (self._process(vnf),)


def _open_disk(stack: ExitStack, image: Image) -> int | None:
    """The disk, open until `stack` is closed, if its format is given.

    Raises:
        ImageError: it is of another format, or names other files.
        OSError: it cannot be opened.
    """
    if image.disk is None or image.format is None:
        return None
    found = inspect(image.disk, sys.maxsize)
    if found.format != image.format:
        raise ImageError(f"{image.disk} is {found.format}, not {image.format}")
    descriptor = os.open(image.disk, os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


def _as_node(vnf: VnfSpec) -> VnfSpec:
    """The same run as the node: VFIO's files are root's."""
    return vnf.model_copy(update={"user": None})


def _kvm_group(image: Image) -> tuple[int, ...]:
    """The group that may use KVM, if the machine is to use it."""
    accelerator = usable_accelerator() if image.accelerator == "auto" else image.accelerator
    device = Path("/dev/kvm")
    return (device.stat().st_gid,) if accelerator == "kvm" and device.exists() else ()


def _nic(vnf: VnfSpec, port: VnfPort) -> VhostUser:
    """The port as a NIC; without an address of the graph's it gets one of its own name."""
    octets = hashlib.blake2b(f"{vnf.name}/{port.id}".encode(), digest_size=5).digest()
    mac = port.mac or ":".join(f"{octet:02x}" for octet in (0x02, *octets))
    return VhostUser(Path(port.switch_port.options["path"]), mac)


def _shared_ports(vnf: VnfSpec) -> dict[str, list[VnfPort]]:
    """The ports in shared memory, by the socket of their region."""
    found: dict[str, list[VnfPort]] = {}
    for port in vnf.ports:
        if port.switch_port.kind is PortKind.SHM:
            found.setdefault(port.switch_port.options["socket"], []).append(port)
    return found


async def _attach(stack: ExitStack, socket: str, ports: list[VnfPort], attempts: int) -> Attachment:
    """Attaches until `stack` is closed; waits while the switch takes back what the last user held.

    Raises:
        AttachError: a port is not there, or has a user.
    """
    names = [port.switch_port.name for port in ports]
    while True:
        attempts -= 1
        try:
            return await asyncio.to_thread(stack.enter_context, attached(Path(socket), *names))
        except AttachError as error:
            if not error.is_busy or attempts <= 0:
                raise
        await asyncio.sleep(_ATTACH_AGAIN_S)
