# SPDX-License-Identifier: Apache-2.0
"""The management NIC of a virtual machine: TCP from the host to the machine, and nothing else.

It is a virtio NIC after all others, on QEMU's own network (slirp, `restrict=on`): the machine gets
10.0.2.15 by DHCP, and reaches nobody. QEMU listens in its network namespace, which has no interface
but the loopback one, on a port for each forward; the VNF's forwarder (forwarding.py) carries
connections of the host there. Forwards come and go while the machine runs.
"""

from collections.abc import Sequence
from functools import partial

from pyroute2 import IPRoute

from headrace.engines.base import Forward, VnfSpec
from headrace.engines.qmp import Qmp, QmpError
from headrace.switches.veth import inside

NETDEV = "management"
_FIRST_PORT = 20_000
MOST = 16
"""Forwards of one machine."""


def as_forwarded(vnf: VnfSpec) -> VnfSpec:
    """The VNF whose forwards go to the ports at which its QEMU listens."""
    forwards = tuple(
        forward.model_copy(update={"vnf_port": _FIRST_PORT + number})
        for number, forward in enumerate(vnf.forwards)
    )
    return vnf.model_copy(update={"forwards": forwards})


def bring_up_loopback(pid: int) -> None:
    """Gives QEMU's network namespace its loopback address. Blocks.

    Raises:
        OSError: the process has ended.
    """
    inside(f"/proc/{pid}/ns/net", _loopback_up)


def _loopback_up() -> None:
    with IPRoute() as kernel:
        kernel.link("set", ifname="lo", state="up")


async def listen(qmp: Qmp, forwards: Sequence[Forward]) -> None:
    """Makes QEMU listen for these forwards, in their order, and for no others.

    Raises:
        QmpError: it does not; says for which.
    """
    monitor = partial(qmp.execute, "human-monitor-command")
    for number in range(MOST):
        # What is not there cannot be removed, which it says in words.
        line = f"hostfwd_remove {NETDEV} tcp:127.0.0.1:{_FIRST_PORT + number}"
        await monitor(**{"command-line": line})
    for number, forward in enumerate(forwards):
        place = f"tcp:127.0.0.1:{_FIRST_PORT + number}-:{forward.vnf_port}"
        said = str(await monitor(**{"command-line": f"hostfwd_add {NETDEV} {place}"})).strip()
        if said:
            raise QmpError(f"port {forward.vnf_port}: {said}")
