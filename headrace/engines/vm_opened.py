# SPDX-License-Identifier: Apache-2.0
"""What is open for a virtual machine while QEMU starts, which inherits it: disk, taps, regions."""

import asyncio
import os
import re
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from headrace.engines.base import VnfPort, VnfSpec
from headrace.engines.cloud_init import seed
from headrace.engines.shared_memory import AttachError, Attachment, attached
from headrace.engines.vm_image import Image
from headrace.machine.disk_images import ImageError, inspect
from headrace.switches.base import PortKind
from headrace.switches.tap import open_tap

_ATTACH_ATTEMPTS = 30
_ATTACH_AGAIN_S = 0.1
_VHOST = Path("/dev/vhost-net")


@dataclass(frozen=True)
class Opened:
    """What is open for a machine: regions by their sockets, disks, taps by their ports' ids."""

    regions: Mapping[str, Attachment] = field(default_factory=dict)
    disk: int | None = None
    taps: Mapping[str, int] = field(default_factory=dict)
    vhost: Mapping[str, int] = field(default_factory=dict)
    seed: int | None = None

    @property
    def descriptors(self) -> list[int]:
        """All of it, for QEMU to inherit."""
        regions = (fd for region in self.regions.values() for fd in region.descriptors)
        disks = (fd for fd in (self.disk, self.seed) if fd is not None)
        return [*regions, *disks, *self.taps.values(), *self.vhost.values()]


async def open_all(stack: ExitStack, vnf: VnfSpec, image: Image) -> Opened:
    """Opens what the machine needs until `stack` is closed.

    Raises:
        AttachError, ImageError, OSError: something cannot be had.
    """
    regions = {}
    for socket, ports in shared_ports(vnf).items():
        regions[socket] = await attach(stack, socket, ports, _ATTACH_ATTEMPTS)
    taps, vhost = {}, {}
    has_vhost = await asyncio.to_thread(_VHOST.exists)
    for port in vnf.ports:
        if port.switch_port.kind is PortKind.TAP:
            taps[port.id] = _kept(stack, open_tap(port.switch_port.options["iface"]))
            # Without KVM, QEMU 7.2 has no notifiers for it (qemu.py).
            if image.uses == "kvm" and has_vhost:
                vhost[port.id] = _kept(stack, os.open(_VHOST, os.O_RDWR | os.O_CLOEXEC))
    return Opened(regions, _open_disk(stack, image), taps, vhost, _open_seed(stack, vnf, image))


def _open_seed(stack: ExitStack, vnf: VnfSpec, image: Image) -> int | None:
    """The disk for cloud-init, in memory, open for reading as QEMU asks for it."""
    if not image.user_data:
        return None
    hostname = re.sub(r"[^a-z0-9]+", "-", vnf.vnf.lower()).strip("-")[:63] or "vnf"
    file = _kept(stack, os.memfd_create("seed"))
    os.write(file, seed(image.user_data, f"{vnf.name}-{vnf.digest}", hostname))
    return _kept(stack, os.open(f"/proc/self/fd/{file}", os.O_RDONLY | os.O_CLOEXEC))


def _kept(stack: ExitStack, descriptor: int) -> int:
    stack.callback(os.close, descriptor)
    return descriptor


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
    return _kept(stack, os.open(image.disk, os.O_RDONLY | os.O_CLOEXEC))


def shared_ports(vnf: VnfSpec) -> dict[str, list[VnfPort]]:
    """The ports in shared memory, by the socket of their region."""
    found: dict[str, list[VnfPort]] = {}
    for port in vnf.ports:
        if port.switch_port.kind is PortKind.SHM:
            found.setdefault(port.switch_port.options["socket"], []).append(port)
    return found


async def attach(stack: ExitStack, socket: str, ports: list[VnfPort], attempts: int) -> Attachment:
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
