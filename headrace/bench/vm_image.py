# SPDX-License-Identifier: Apache-2.0
"""What a VM of a subject boots: a Debian kernel with headrace-vnf, which drives both NICs by DPDK.

The guest takes its two NICs from its kernel, starts the function between them, and says on its
console when it forwards, so that the node counts the graph as complete then. The processor is
emulated (TCG) where KVM does not work: rates are then the emulator's, and the report says so.
"""

import json
import shutil
from pathlib import Path
from typing import Any

from headrace.bench.errors import DeviceError
from headrace.bench.subject import Subject
from headrace.machine.guests.image import BUSYBOX, COMMAND_LINE, add_vnf, base_image
from headrace.machine.guests.kernel import find_kernel

READY = "guest: forwards"
BOOT_S = 120.0
MEMORY_MB, VNF_MB, HUGEPAGES = 384, 96, 64
QEMU = "qemu-system-x86_64"
_START = """
number=0
for name in eth0 eth1; do
  nic=$(basename $(readlink -f /sys/class/net/$name/device/..))
  echo uio_pci_generic >/sys/bus/pci/devices/$nic/driver_override
  echo $nic >/sys/bus/pci/devices/$nic/driver/unbind
  echo $nic >/sys/bus/pci/drivers_probe
  sed -i "s/NIC$number/$nic/" /vnf.json
  number=$((number + 1))
done
headrace-vnf FUNCTION --config /vnf.json >/vnf.log 2>&1 &
until grep -q 'is running' /vnf.log; do sleep 0.1; done
echo 'READY'
"""


def why_no_vm() -> str | None:
    """Why this machine can't run such a guest; None if it can."""
    if shutil.which(QEMU) is None:
        return f"{QEMU} is not installed (make setup)"
    if not BUSYBOX.exists():
        return f"{BUSYBOX} is not installed (make setup)"
    if find_kernel() is None:
        return "there is no Debian kernel for guests (make setup)"
    return None


def vnf_config(subject: Subject, roles: tuple[str, ...] | None) -> dict[str, Any]:
    """The configuration of headrace-vnf in the guest; NIC0 and NIC1 are put in there."""
    names = roles or ("0", "1")
    named = dict(zip(roles, roles, strict=True)) if roles else {}
    return {
        "eal": {"memory_mb": VNF_MB},
        "idle": "poll",
        "ports": [{"name": name, "devargs": f"NIC{at}"} for at, name in enumerate(names)],
        "function": {**named, **subject.configuration},
    }


def write_image(subject: Subject, roles: tuple[str, ...] | None, file: Path) -> dict[str, Any]:
    """Writes the initramfs of a subject's VNFs; returns the `configuration` of their template.

    Raises:
        DeviceError: this machine has no kernel or no QEMU for it.
    """
    reason = why_no_vm()
    kernel = find_kernel()
    if reason is not None or kernel is None:
        raise DeviceError(f"VM: {reason}")
    image = base_image(kernel)
    add_vnf(image)
    image.add("/vnf.json", json.dumps(vnf_config(subject, roles)).encode())
    script = _START.replace("FUNCTION", subject.function).replace("READY", READY)
    image.add("/autostart", script.encode())
    file.write_bytes(image.archive())
    return {
        "kernel": str(kernel.image),
        "initrd": str(file),
        "command_line": f"{COMMAND_LINE} hugepages={HUGEPAGES}",
        "ready": READY,
        "boot_s": BOOT_S,
    }
