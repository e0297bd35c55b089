# SPDX-License-Identifier: Apache-2.0
"""What guests boot: the image that all have, and headrace-vnf in it."""

from pathlib import Path

from headrace.machine.guests.initramfs import Initramfs
from headrace.machine.guests.kernel import GuestKernel
from headrace.machine.programs import find_program

BUSYBOX = Path("/bin/busybox")
# no_timer_check: a busy host may not run the guest while its kernel waits to see the timer tick.
COMMAND_LINE = (
    "console=ttyS0 quiet panic=-1 rdinit=/init mitigations=off net.ifnames=0 no_timer_check"
)
MODULES = ("virtio_pci", "virtio_net", "bridge", "uio_pci_generic")
DRIVERS = ("bus_pci", "bus_vdev", "mempool_ring", "net_virtio")
"""DPDK's, that headrace-vnf needs in a guest."""
_INIT = Path(__file__).with_name("init.sh")


def base_image(kernel: GuestKernel, *modules_too: str) -> Initramfs:
    """The initramfs that every guest has: busybox, init and the modules of the usual devices."""
    image = Initramfs()
    image.add_file(BUSYBOX, "/bin/busybox")
    image.add_link("/bin/sh", "busybox")
    image.add("/init", _INIT.read_bytes(), 0o755)
    modules = kernel.load_order(*MODULES, *modules_too)
    for module in modules:
        image.add_file(module, f"/modules/{module.name}")
    image.add("/modules/order", "".join(f"{module.name}\n" for module in modules).encode())
    return image


def drivers(*names: str) -> list[Path]:
    """Files of DPDK's drivers, where it looks for them."""
    [directory] = Path("/usr/lib/x86_64-linux-gnu/dpdk").glob("pmds-*")
    return [directory / f"librte_{name}.so" for name in names]


def add_vnf(image: Initramfs, *more_drivers: str) -> None:
    """Adds headrace-vnf with its drivers, and further ones."""
    image.add_program(find_program("headrace-vnf"), *drivers(*DRIVERS, *more_drivers))
