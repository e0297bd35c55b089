# SPDX-License-Identifier: Apache-2.0
"""What a virtual machine is made from: the `configuration` of a template of engine `vm`."""

from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from headrace.engines.cloud_init import MAX_OCTETS
from headrace.engines.kvm_probe import usable_accelerator
from headrace.engines.qemu import UEFI_CODE, Accelerator

PciAddress = Annotated[
    str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$", examples=["0000:03:10.0"])
]
"""A function of the host's PCI bus, in the form that sysfs has."""

GRAPH_SETTINGS = frozenset({"boot_s", "cpus", "firmware", "ready", "user_data"})
"""The keys of `Image` that may come from a graph: all others name files and devices of the host."""


class Image(BaseModel):
    """What a virtual machine boots: `disk`, which it does not change, or `kernel` and `initrd`.

    `ready` is a text on its first serial port; within `boot_s` seconds it must come. `auto` takes
    KVM where the machine can (qemu.py). A disk whose `format` is given is opened by the node, so
    the VNF's user need not be able to read it, and must stand alone, without a backing file;
    without `format` QEMU finds it out and opens the file itself. `pci` are functions of the host's
    PCI bus for it. `user_data` is for cloud-init (cloud_init.py). `queues` of each vhost-user NIC.
    `numa`: its memory on the NUMA node of its cores. `management`: it has a NIC by which forwarded
    ports are reached (vm_management.py); so has one whose graph forwards some. `guest_agent`:
    QEMU's agent runs in it, by which commands are run (guest_agent.py).
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
    user_data: Annotated[str, Field(max_length=MAX_OCTETS)] = ""
    firmware: Literal["bios", "uefi"] = "bios"
    queues: Annotated[int, Field(ge=1, le=16)] = 1
    numa: Literal["auto", "off"] = "auto"
    management: bool = False
    guest_agent: bool = False

    @model_validator(mode="after")
    def _boots(self) -> "Image":
        if (self.disk is None) == (self.kernel is None):
            raise ValueError("give either `disk` or `kernel`")
        if self.format is not None and self.disk is None:
            raise ValueError("`format` is a disk's")
        for file in (self.disk, self.kernel, self.initrd):
            if file is not None and not file.is_file():
                raise ValueError(f"there is no file {file}")
        if self.firmware == "uefi" and not UEFI_CODE.is_file():
            raise ValueError(f"there is no {UEFI_CODE}; install ovmf (make setup)")
        if self.management and self.pci:
            raise ValueError("a machine with `pci` functions cannot have a `management` NIC")
        if len(set(self.pci)) < len(self.pci):
            raise ValueError("`pci` names a function twice")
        return self

    @property
    def uses(self) -> Accelerator:
        """How the machine is accelerated on this host."""
        return usable_accelerator() if self.accelerator == "auto" else self.accelerator
