# SPDX-License-Identifier: Apache-2.0
"""A virtual machine as QEMU's command line: what it is made of, and how its ports meet the switch.

Only the description; nothing is started here. Each kind of port is a class of its own:

* `VhostUser`: a virtio NIC whose rings the switch itself serves. All of the guest's memory is
  shared with the switch, so it is a memory file, on hugepages if there are any.
* `Tap`: a virtio NIC on a kernel interface, its rings served by the kernel (vhost-net) or by QEMU.
* `SharedMemory`: a Headrace region as a PCI device without rings of its own (`ivshmem-plain`). The
  guest maps BAR 2 and finds there what a process gets by a file descriptor (libheadrace-port).
* `PciFunction`: a function of the host's PCI bus, bound to vfio-pci.

Acceleration. KVM is used where it runs guests (kvm_probe.py).

MSI-X. QEMU 7.2 without KVM dies in vhost_net_start when a vhost-user NIC has MSI-X vectors (it asks
KVM for notifiers that are not there), so such NICs get the legacy interrupt (`vectors=0`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from headrace.engines.guest_agent import PORT

PROGRAM = "qemu-system-x86_64"

Accelerator = Literal["kvm", "tcg"]

_FIRST_SLOT = 4

UEFI_CODE, UEFI_VARIABLES = (
    Path("/usr/share/OVMF") / name for name in ("OVMF_CODE_4M.fd", "OVMF_VARS_4M.fd")
)
"""Debian's UEFI firmware, and its variables as they are at first."""

RING = 1024
"""Descriptors of each virtio ring: the most that QEMU has, to ride out scheduling gaps."""


@dataclass(frozen=True)
class VhostUser:
    """A virtio NIC served by the switch through the socket `path`.

    With `listens` QEMU makes the socket and the switch connects (type `dpdkvhostuserclient`), so
    that either may be restarted; without, the switch makes it (`dpdkvhostuser`) and QEMU connects
    again when it is lost. QEMU does not run the guest before the switch has connected.
    """

    path: Path
    mac: str
    listens: bool = True
    queues: int = 1
    packed: bool = False

    def arguments(self, number: int, accelerator: Accelerator) -> list[str]:
        """QEMU's words for it, as the guest's NIC `number`."""
        role = "server=on,wait=off" if self.listens else "server=off,reconnect=1"
        nic = _nic(number, self.mac, self.queues, accelerator, shared=True)
        return [
            *("-chardev", f"socket,id=chr{number},path={_escaped(self.path)},{role}"),
            *("-netdev", f"vhost-user,id=net{number},chardev=chr{number},queues={self.queues}"),
            *("-device", f"{nic},packed={'on' if self.packed else 'off'}"),
        ]


@dataclass(frozen=True)
class Tap:
    """A virtio NIC on the kernel's tap interface `interface`, which exists.

    With `vhost` the kernel moves the packets (/dev/vhost-net), else QEMU does. `descriptor` is the
    open tap, and `vhost_descriptor` the open /dev/vhost-net, if QEMU inherits them; else it opens
    them itself.
    """

    interface: str
    mac: str
    vhost: bool = False
    descriptor: int | None = None
    vhost_descriptor: int | None = None

    def arguments(self, number: int, accelerator: Accelerator) -> list[str]:
        """QEMU's words for it, as the guest's NIC `number`."""
        backend = f"tap,id=net{number},ifname={self.interface},script=no,downscript=no"
        if self.descriptor is not None:
            backend = f"tap,id=net{number},fd={self.descriptor}"
        if self.vhost_descriptor is not None:
            backend += f",vhostfd={self.vhost_descriptor}"
        nic = _nic(number, self.mac, 1, accelerator, shared=self.vhost)
        return [
            *("-netdev", f"{backend},vhost={'on' if self.vhost else 'off'}"),
            *("-device", nic),
        ]


@dataclass(frozen=True)
class SharedMemory:
    """`size` octets, a power of two, of an open file as a PCI device of the guest.

    `descriptor` is inherited by QEMU, which opens the file behind it anew.
    """

    descriptor: int
    size: int

    def arguments(self, number: int, accelerator: Accelerator) -> list[str]:
        """QEMU's words for it."""
        del accelerator
        file = f"mem-path=/proc/self/fd/{self.descriptor}"
        return [
            *("-object", f"memory-backend-file,id=shm{number},share=on,size={self.size},{file}"),
            *("-device", f"ivshmem-plain,memdev=shm{number},addr={_slot(number)}"),
        ]


@dataclass(frozen=True)
class PciFunction:
    """The host's PCI function `address` (such as 0000:03:10.0), bound to vfio-pci."""

    address: str

    def arguments(self, number: int, accelerator: Accelerator) -> list[str]:
        """QEMU's words for it."""
        del accelerator
        return ["-device", f"vfio-pci,host={self.address},addr={_slot(number)}"]


_DISK_SET, _SEED_SET = 1, 2
"""QEMU's numbers for the sets of descriptors that the disks are opened from."""

Device = VhostUser | Tap | SharedMemory | PciFunction


@dataclass(frozen=True)
class VirtualMachine:
    """A virtual machine. It boots `disk`, or `kernel` with `initrd` and `command_line`.

    `qmp` is the control socket; the first serial port goes to the file `console`, the second to the
    socket `agent`. `disk_descriptor` is the disk, opened for reading, which QEMU inherits. Devices
    appear in the guest in their order, from PCI slot 4 on. `firmware` are items that it finds below
    /sys/firmware/qemu_fw_cfg/by_name. With `uefi` it starts by UEFI, whose variables are as new at
    each start. `seed_descriptor` is a second, small disk (cloud_init.py). `memory_node`: the host's
    NUMA node of all its memory. With `management_mac` it has a NIC beside the devices, the last, on
    a network of QEMU's own (vm_management.py). `guest_agent` is the socket for an agent in the
    guest (guest_agent.py), by a virtio serial port after all others.
    """

    name: str
    memory_mb: int
    qmp: Path
    console: Path
    devices: Sequence[Device] = ()
    cpus: int = 1
    accelerator: Accelerator = "tcg"
    hugepages: bool = False
    disk: Path | None = None
    disk_format: str | None = None
    disk_descriptor: int | None = None
    kernel: Path | None = None
    initrd: Path | None = None
    command_line: str = ""
    agent: Path | None = None
    firmware: Mapping[str, str] = field(default_factory=dict)
    uefi: bool = False
    seed_descriptor: int | None = None
    memory_node: int | None = None
    management_mac: str | None = None
    guest_agent: Path | None = None

    def arguments(self) -> list[str]:
        """The whole command line, the program first."""
        pages = ",hugetlb=on,hugetlbsize=2M" if self.hugepages else ""
        memory = f"memory-backend-memfd,id=ram,size={self.memory_mb}M,share=on{pages}"
        if self.memory_node is not None:
            memory += f",host-nodes={self.memory_node},policy=bind"
        words = [PROGRAM, "-name", self.name.replace(",", ",,")]
        words += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        words += ["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny"]
        words += ["-machine", f"q35,accel={self.accelerator},memory-backend=ram"]
        words += ["-cpu", "host" if self.accelerator == "kvm" else "max"]
        words += ["-smp", str(self.cpus), "-m", f"{self.memory_mb}M", "-object", memory]
        words += ["-qmp", f"unix:{_escaped(self.qmp)},server=on,wait=off"]
        # Appended to, since the node empties it when it grows too long.
        console = f"file,id=console,path={_escaped(self.console)},append=on"
        words += ["-chardev", console, "-serial", "chardev:console"]
        if self.agent is not None:
            words += ["-serial", f"unix:{_escaped(self.agent)},server=on,wait=off"]
        if self.kernel is not None:
            words += ["-kernel", str(self.kernel), "-append", self.command_line]
        if self.initrd is not None:
            words += ["-initrd", str(self.initrd)]
        if self.disk is not None:
            place = _escaped(self.disk)
            if self.disk_descriptor is not None:
                words += ["-add-fd", f"fd={self.disk_descriptor},set={_DISK_SET}"]
                place = f"/dev/fdset/{_DISK_SET}"
            kind = f",format={self.disk_format}" if self.disk_format else ""
            words += ["-drive", f"file={place},if=virtio,snapshot=on{kind}"]
        if self.seed_descriptor is not None:
            words += ["-add-fd", f"fd={self.seed_descriptor},set={_SEED_SET}"]
            words += [
                "-drive",
                f"file=/dev/fdset/{_SEED_SET},if=virtio,format=raw,snapshot=on",
            ]
        if self.uefi:
            for unit, (file, use) in enumerate(
                ((UEFI_CODE, "readonly=on"), (UEFI_VARIABLES, "snapshot=on"))
            ):
                words += ["-drive", f"if=pflash,unit={unit},format=raw,file={file},{use}"]
        for number, device in enumerate(self.devices):
            words += device.arguments(number, self.accelerator)
        if self.management_mac is not None:
            words += ["-netdev", "user,id=management,restrict=on,ipv6=off"]
            nic = f"netdev=management,mac={self.management_mac},addr={_slot(len(self.devices))}"
            words += ["-device", f"virtio-net-pci,{nic}"]
        if self.guest_agent is not None:
            slot = len(self.devices) + (self.management_mac is not None)
            words += ["-chardev"]
            words += [f"socket,id=agent,path={_escaped(self.guest_agent)},server=on,wait=off"]
            words += ["-device", f"virtio-serial-pci,id=agents,addr={_slot(slot)}"]
            words += ["-device", f"virtserialport,bus=agents.0,chardev=agent,name={PORT}"]
        for name, text in self.firmware.items():
            words += ["-fw_cfg", f"name={name},string={text.replace(',', ',,')}"]
        return words


def pci_address(number: int) -> str:
    """Where the guest finds its device `number`."""
    return f"0000:00:{_FIRST_SLOT + number:02x}.0"


def _slot(number: int) -> str:
    return f"{_FIRST_SLOT + number:#x}"


def _nic(number: int, mac: str, queues: int, accelerator: Accelerator, *, shared: bool) -> str:
    """A virtio NIC; `shared`: its rings are served by another process or the kernel."""
    vectors = 2 * queues + 2 if queues > 1 else 3
    if shared and accelerator == "tcg":
        vectors = 0
    nic = f"virtio-net-pci,netdev=net{number},mac={mac},addr={_slot(number)},vectors={vectors}"
    nic += f",rx_queue_size={RING}"
    if shared:
        nic += f",tx_queue_size={RING}"
    return f"{nic},mq=on" if queues > 1 else nic


def _escaped(path: Path) -> str:
    """A path within a comma-separated option: commas are doubled."""
    return str(path).replace(",", ",,")
