# SPDX-License-Identifier: Apache-2.0
"""A small Linux guest: a Debian kernel, busybox, and what a test adds; boots in seconds under TCG.

The guest obeys through its second serial port (init.sh), so a test needs neither network nor disk.
QEMU dies with the test that started it, however that ends.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from headrace.engines.qemu import PROGRAM, Device, VirtualMachine
from headrace.machine.guests.image import BUSYBOX
from headrace.machine.guests.image import COMMAND_LINE as COMMAND_LINE
from headrace.machine.guests.image import add_vnf as add_vnf
from headrace.machine.guests.image import base_image as base_image
from headrace.machine.guests.initramfs import Initramfs
from headrace.machine.guests.kernel import GuestKernel, find_kernel
from tests.support.daemon import Daemon

IN_LAB = "LAB_OUT" in os.environ
"""Whether this is the lab guest (lab.py): there one emulator runs in another, 20 times slower."""
BOOT_S = 600.0 if IN_LAB else 90.0
_FORWARDING = 3  # BR_STATE_FORWARDING of linux/if_bridge.h


class GuestError(AssertionError):
    """A command in the guest failed, or the guest does not answer."""


def require_guest() -> GuestKernel:
    """The kernel for guests; skips the test with the reason if this machine cannot run any."""
    if shutil.which(PROGRAM) is None:
        pytest.skip(f"{PROGRAM} is not installed (make setup)")
    if not BUSYBOX.exists():
        pytest.skip(f"{BUSYBOX} is not installed (make setup)")
    kernel = find_kernel()
    if kernel is None:
        pytest.skip("no Debian kernel for guests (make setup)")
    return kernel


class Guest:
    """A running guest; `rundir` has its sockets and its console's log."""

    def __init__(
        self,
        rundir: Path,
        kernel: GuestKernel,
        image: Initramfs,
        devices: Sequence[Device],
        *,
        memory_mb: int = 128,
        command_line: str = "",
        inherit: Sequence[int] = (),
        incoming: Path | None = None,
    ) -> None:
        """Starts it; with `incoming` it waits for another one's state at this socket."""
        self.console = rundir / "guest.console"
        archive = rundir / "guest.cpio"
        archive.write_bytes(image.archive())
        self._agent_path = rundir / "guest.agent"
        machine = VirtualMachine(
            name=rundir.name,
            memory_mb=memory_mb,
            qmp=rundir / "guest.qmp",
            console=self.console,
            devices=devices,
            kernel=kernel.image,
            initrd=archive,
            command_line=f"{COMMAND_LINE} {command_line}",
            agent=self._agent_path,
        )
        self.qmp = machine.qmp
        words = machine.arguments()
        if incoming is not None:
            words += ["-incoming", f"unix:{incoming}"]
        self.process = Daemon(words, rundir / "guest.log", inherit=inherit)
        self._agent: socket.socket | None = None
        self._received = b""

    def boot(self, timeout_s: float = BOOT_S) -> None:
        """Waits until the guest obeys."""
        self.process.wait_until(self._connected, timeout_s)
        self._reply(timeout_s)

    def attach(self, timeout_s: float = 20.0) -> None:
        """Instead of boot(), for one that got the state of a guest that obeyed already."""
        self.process.wait_until(self._connected, timeout_s)

    def _connected(self) -> bool:
        agent = socket.socket(socket.AF_UNIX)
        try:
            agent.connect(str(self._agent_path))
        except OSError:  # not there, or not listening yet
            agent.close()
            return False
        self._agent = agent
        return True

    def run(self, command: str, timeout_s: float = 30.0) -> str:
        """Runs a line of shell in the guest; what it wrote.

        Raises:
            GuestError: it failed, or did not end in time.
        """
        assert self._agent is not None, "boot() first"
        assert "\n" not in command
        self._agent.sendall(command.encode() + b"\n")
        output, status = self._reply(timeout_s)
        if status != 0:
            raise GuestError(f"in the guest, {command!r} ended with {status}:\n{output}")
        return output

    def write(self, path: str, text: str) -> None:
        """Writes a file in the guest."""
        quoted = text.replace("'", "'\\''").replace("\n", " ")
        self.run(f"echo '{quoted}' >{path}")

    def counter(self, interface: str, name: str) -> int:
        """A counter of an interface, such as `rx_packets`."""
        return int(self.run(f"cat /sys/class/net/{interface}/statistics/{name}"))

    def _reply(self, timeout_s: float) -> tuple[str, int]:
        """What came before the next line `exit <status>`, and the status."""
        assert self._agent is not None
        end = time.monotonic() + timeout_s
        while True:
            lines = self._received.replace(b"\r", b"").split(b"\n")
            for number, line in enumerate(lines[:-1]):
                if line.startswith(b"exit "):
                    self._received = b"\n".join(lines[number + 1 :])
                    return b"\n".join(lines[:number]).decode(errors="replace"), int(line[5:])
            self._agent.settimeout(max(0.01, end - time.monotonic()))
            try:
                piece = self._agent.recv(65536)
            except TimeoutError:
                piece = b""
            if not piece:
                what = "does not answer" if self.process.exit_code is None else "has ended"
                raise GuestError(f"the guest {what}; its console:\n{self._words()}")
            self._received += piece

    def _words(self) -> str:
        seen = self.console.read_text(errors="replace") if self.console.exists() else ""
        return "\n".join([*seen.splitlines()[-30:], self.process.log_tail(10)])

    def stop(self) -> None:
        """Ends it at once: it has nothing to lose."""
        if self._agent is not None:
            self._agent.close()
        if self.process.exit_code is None:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.stop(signal.SIGKILL)


def wire_script(bridge: str, *interfaces: str) -> list[str]:
    """Shell for the guest: joins interfaces as a wire, and returns when it carries packets.

    No IPv6, no learning (the generator's addresses would move), no groups to report: nothing but
    the test's packets moves.
    """
    place = f"/sys/class/net/{bridge}/bridge"
    lines = [
        "for scope in all default; do echo 1 >/proc/sys/net/ipv6/conf/$scope/disable_ipv6; done",
        f"brctl addbr {bridge}",
        f"for name in multicast_snooping ageing_time; do echo 0 >{place}/$name; done",
        f"ip link set {bridge} up",
    ]
    for interface in interfaces:
        lines.append(f"brctl addif {bridge} {interface} && ip link set {interface} promisc on up")
    for interface in interfaces:
        state = f"/sys/class/net/{interface}/brport/state"
        lines.append(f"until [ $(cat {state}) = {_FORWARDING} ]; do sleep 0.05; done")
    return lines


def wire(guest: Guest, bridge: str, *interfaces: str) -> None:
    """Runs `wire_script` in a guest."""
    for line in wire_script(bridge, *interfaces):
        guest.run(line)
