# SPDX-License-Identifier: Apache-2.0
"""The lab guest: a Debian kernel under TCG that runs a command on this machine's own files.

It has what this machine's kernel may lack: Open vSwitch's datapath, vhost-net, vfio, overlayfs.
The guest's root is this machine's, read by virtiofs, below a layer of memory that takes all writes,
so that every program of this checkout runs there as it is, and nothing is left here. What a command
is to leave goes into the folder `$LAB_OUT`.

    python -m tests.guest.lab -- .venv/bin/python -m pytest tests/switches -k kernel
    make lab RUN=".venv/bin/headrace bench run hong/compositions --results /run/lab/lab.sqlite"

`--sriov` gives it an adapter with SR-IOV (Intel 82576, QEMU's `igb`) and an IOMMU, and boots it by
what setup/lab.sh has unpacked into `.lab`: a QEMU that has them, and the kernel with all drivers.

An emulated processor is some 20 times slower than this machine's, and not in proportion: what is
measured there compares subjects with one another, inside the guest, and nothing else.
"""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from headrace.engines.qemu import PROGRAM
from headrace.machine.guests.image import BUSYBOX
from headrace.machine.guests.initramfs import Initramfs
from headrace.machine.guests.kernel import GuestKernel, find_kernel, kernel_in
from tests.support.daemon import Daemon

VIRTIOFSD = Path("/usr/lib/qemu/virtiofsd")
MODULES = ("virtio_pci", "virtiofs", "overlay")
STREAMS = ("stdin", "stdout", "stderr")
ROOT = Path(__file__).resolve().parents[2]
_INIT = Path(__file__).with_name("lab-init.sh")
# no_timer_check: as in guests' image.py.
COMMAND_LINE = (
    "console=ttyS0 quiet panic=-1 rdinit=/init mitigations=off net.ifnames=0 no_timer_check "
    "random.trust_cpu=on"
)


LAB = ROOT / ".lab"
SRIOV = (
    "-device", "intel-iommu,intremap=on",
    "-device", "pcie-root-port,id=sriov,chassis=1,slot=1",
    "-device", "igb,bus=sriov,mac=02:00:00:00:01:00,netdev=wire",
    "-netdev", "hubport,id=wire,hubid=0",
)  # fmt: skip
"""An adapter with SR-IOV whose wire leads nowhere, behind an IOMMU."""


class LabError(RuntimeError):
    """The lab guest did not start, or did not end in time."""


@dataclass(frozen=True)
class Outcome:
    """What a command did in the lab guest: its exit status and all that it wrote."""

    status: int
    output: str


def why_not() -> str | None:
    """Why no lab guest can run here; None if one can."""
    if shutil.which(PROGRAM) is None or not VIRTIOFSD.exists():
        return f"{PROGRAM} and {VIRTIOFSD} are not installed (make setup)"
    if not BUSYBOX.exists():
        return f"{BUSYBOX} is not installed (make setup)"
    if find_kernel() is None:
        return "no Debian kernel for guests (make setup)"
    if os.geteuid() != 0:
        return "needs root: the guest reads all files"
    return None


def require_lab() -> None:
    """Skips the test with the reason if no lab guest can run here."""
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)


def require_sriov() -> None:
    """Skips the test with the reason if no lab guest can have an adapter with SR-IOV."""
    require_lab()
    if _sriov_qemu() is None or kernel_in(LAB) is None:
        pytest.skip(
            "QEMU 7.2 emulates no adapter with SR-IOV; setup/lab.sh has found no newer one of "
            "Debian's backports (make lab runs it)"
        )


def _sriov_qemu() -> list[str] | None:
    """How the QEMU of setup/lab.sh is called."""
    program = LAB / "usr/bin" / PROGRAM
    firmware = (LAB / "usr/share/qemu", Path("/usr/share/seabios"), Path("/usr/lib/ipxe/qemu"))
    if not program.exists():
        return None
    return [str(program), *(word for place in firmware for word in ("-L", str(place)))]


def _image(kernel: GuestKernel) -> bytes:
    image = Initramfs()
    image.add_file(BUSYBOX, "/bin/busybox")
    image.add_link("/bin/sh", "busybox")
    image.add("/init", _INIT.read_bytes(), 0o755)
    modules = kernel.load_order(*MODULES)
    for module in modules:
        image.add_file(module, f"/modules/{module.name}")
    image.add("/modules/order", "".join(f"{module.name}\n" for module in modules).encode())
    return image.archive()


def _script(kernel: GuestKernel, command: Sequence[str], modules: Sequence[str]) -> str:
    """What the guest runs: the rest of a system's start, the command, the end."""
    version = kernel.modules.name
    lines = [
        "#!/bin/sh",
        "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root",
        "export LANG=C.UTF-8 LAB_OUT=/run/lab",
        "mkdir -p /dev/pts /dev/hugepages /sys/fs/cgroup",
        "ln -s /proc/self/fd /dev/fd",
        *(f"ln -s /proc/self/fd/{n} /dev/{name}" for n, name in enumerate(STREAMS)),
        "mount -t devpts devpts /dev/pts",
        "mount -t hugetlbfs none /dev/hugepages",
        "mount -t cgroup2 none /sys/fs/cgroup",
        "ip link set lo up",
        f"mkdir -p /lib/modules && ln -sfn {kernel.modules} /lib/modules/{version}",
        f"depmod -A {version}",
        *(f"modprobe {name}" for name in modules),
        f"cd {shlex.quote(str(ROOT))}",
        f"{shlex.join(command)} >/run/lab/output 2>&1",
        "echo $? >/run/lab/status",
        "sync",
        "echo o >/proc/sysrq-trigger",
        "sleep 60",
    ]
    return "\n".join(lines) + "\n"


def run(
    command: Sequence[str],
    out: Path,
    *,
    modules: Sequence[str] = (),
    memory_mb: int = 6144,
    cpus: int = 2,
    hugepages: int = 0,
    sriov: bool = False,
    timeout_s: float = 1800.0,
) -> Outcome:
    """Boots a lab guest, runs a command in this checkout there, and returns what it did.

    Args:
        command: the program and its arguments, as they would be called here.
        out: the folder that the guest sees as `/run/lab` ($LAB_OUT), the only one that it writes.
        modules: modules of the kernel to load before.
        memory_mb: the guest's memory; what it writes is in it.
        cpus: its processors.
        hugepages: its pages of 2 MiB.
        sriov: it has an adapter with SR-IOV (`require_sriov`).
        timeout_s: after so long it is ended.

    Raises:
        LabError: the guest did not start or did not end in time; says what its console showed.
    """
    kernel = kernel_in(LAB) if sriov else find_kernel()
    program = _sriov_qemu() if sriov else [PROGRAM]
    if kernel is None or program is None:
        raise LabError(f"no Debian kernel for guests (make {'lab' if sriov else 'setup'})")
    out.mkdir(parents=True, exist_ok=True)
    (out / "command.sh").write_text(_script(kernel, command, modules))
    for name in ("status", "output"):
        (out / name).unlink(missing_ok=True)
    with ExitStack() as stack:
        place = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hrlab-")))
        archive = place / "lab.cpio"
        archive.write_bytes(_image(kernel))
        words = [
            *program, "-nodefaults", "-display", "none", "-no-reboot",
            "-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", "max", "-smp", str(cpus),
            "-m", str(memory_mb),
            "-object", f"memory-backend-memfd,id=memory,size={memory_mb}M,share=on",
            "-numa", "node,memdev=memory",
            "-kernel", str(kernel.image), "-initrd", str(archive),
            "-append", f"{COMMAND_LINE} hugepages={hugepages} intel_iommu=on",
            "-serial", f"file:{place / 'console'}",
            *(SRIOV if sriov else ()),
        ]  # fmt: skip
        for tag, source in (("host", Path("/")), ("out", out.resolve())):
            socket = place / f"{tag}.sock"
            daemon = Daemon(
                [str(VIRTIOFSD), f"--socket-path={socket}", "-o", f"source={source}",
                 "-o", "sandbox=chroot", "-o", "cache=auto", "-f"],
                place / f"{tag}.log",
            )  # fmt: skip
            stack.callback(daemon.stop)
            daemon.wait_until(socket.exists, 10.0)
            words += ["-chardev", f"socket,id={tag},path={socket}"]
            words += ["-device", f"vhost-user-fs-pci,chardev={tag},tag={tag},vectors=0"]
        guest = Daemon(words, place / "qemu.log")
        stack.callback(guest.stop)
        end = time.monotonic() + timeout_s
        while guest.exit_code is None and time.monotonic() < end:
            time.sleep(0.2)
        status = out / "status"
        if not status.exists():
            console = place / "console"
            seen = console.read_text(errors="replace") if console.exists() else ""
            what = "did not end in time" if guest.exit_code is None else "ended without a result"
            tail = "\n".join([*seen.splitlines()[-20:], guest.log_tail(10)])
            raise LabError(f"the lab guest {what}; its console:\n{tail}")
        return Outcome(int(status.read_text()), (out / "output").read_text(errors="replace"))


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description="Runs a command in the lab guest.")
    parser.add_argument("--out", type=Path, default=ROOT / "results/lab", help="its /run/lab")
    parser.add_argument("--modules", default="openvswitch,vhost_net,veth", help="apart by commas")
    parser.add_argument("--memory", type=int, default=6144, help="MiB")
    parser.add_argument("--hugepages", type=int, default=512, help="of 2 MiB")
    parser.add_argument("--sriov", action="store_true", help="with an adapter that has SR-IOV")
    parser.add_argument("--minutes", type=float, default=60.0, help="it is ended after so long")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    asked = parser.parse_args()
    reason = why_not()
    if reason is not None:
        sys.stderr.write(f"lab: {reason}\n")
        return 1
    command = asked.command[1:] if asked.command[:1] == ["--"] else asked.command
    if not command:
        parser.error("no command")
    try:
        outcome = run(
            command, asked.out, modules=[name for name in asked.modules.split(",") if name],
            memory_mb=asked.memory, hugepages=asked.hugepages, sriov=asked.sriov,
            timeout_s=60 * asked.minutes,
        )  # fmt: skip
    except (LabError, subprocess.SubprocessError) as error:
        sys.stderr.write(f"lab: {error}\n")
        return 1
    sys.stdout.write(outcome.output)
    return outcome.status


if __name__ == "__main__":
    sys.exit(main())
