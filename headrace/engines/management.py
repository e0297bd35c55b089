# SPDX-License-Identifier: Apache-2.0
"""The management NIC of a container, script or archive: TCP from the host to it, nothing else.

It is the interface `management` after all ports, with the address that a virtual machine's has
(vm_management.py): one end of a veth pair whose other end, 10.0.2.2, is in a network namespace that
has nothing else in it. There the VNF's forwarder (forwarding.py) connects from; who is in the VNF
reaches no further than that address, at which nobody listens.
"""

from functools import partial
from ipaddress import IPv4Interface
from pathlib import Path

from pyroute2 import IPRoute, netns
from pyroute2.netlink.exceptions import NetlinkError

from headrace.engines.base import EngineError, VnfSpec
from headrace.engines.forwarding import Way
from headrace.switches.veth import inside, silence, wait_until_up

INTERFACE = "management"
ADDRESS, HOST = IPv4Interface("10.0.2.15/24"), IPv4Interface("10.0.2.2/24")
_NEAR = "host"


def namespace_of(vnf: VnfSpec) -> str:
    """The name of the namespace that has the other end; `+` occurs in no VNF's name."""
    return f"{vnf.name}+{INTERFACE}"


def way(vnf: VnfSpec) -> Way:
    """How forwarded connections come to the VNF by this NIC."""
    return Way(Path(netns.NETNS_RUN_DIR) / namespace_of(vnf), str(ADDRESS.ip))


def make(vnf: VnfSpec, namespace: str) -> None:
    """Makes the NIC in the VNF's network namespace (a path). Blocks.

    Raises:
        EngineError: the kernel refuses.
    """
    try:
        remove(vnf)  # what a killed node has left
        netns.create(namespace_of(vnf))
        inside(namespace_of(vnf), partial(_make_pair, namespace))
        inside(namespace, partial(_set_up, INTERFACE, ADDRESS))
        inside(namespace_of(vnf), partial(_set_up, _NEAR, HOST))
    except (NetlinkError, OSError) as error:
        raise EngineError(f"VNF {vnf.vnf}: its management NIC: {error}") from error


def _make_pair(namespace: str) -> None:
    for scope in ("all", "default"):
        silence(scope)
    with IPRoute() as kernel:
        kernel.link("add", ifname=_NEAR, kind="veth", peer={"ifname": INTERFACE})
        kernel.link("set", index=kernel.link_lookup(ifname=INTERFACE)[0], net_ns_fd=namespace)
        kernel.link("set", index=kernel.link_lookup(ifname=_NEAR)[0], state="up")


def _set_up(device: str, address: IPv4Interface) -> None:
    silence(device)
    with IPRoute() as kernel:
        index = kernel.link_lookup(ifname=device)[0]
        kernel.addr(
            "replace",
            index=index,
            address=str(address.ip),
            prefixlen=address.network.prefixlen,
            broadcast=str(address.network.broadcast_address),
        )
        kernel.link("set", index=index, state="up")
    wait_until_up([device])


def remove(vnf: VnfSpec) -> None:
    """Removes the namespace, and with it the pair. Blocks."""
    if namespace_of(vnf) in netns.listnetns():
        netns.remove(namespace_of(vnf))


def present(vnf: VnfSpec, pid: int) -> bool:
    """Whether the NIC is there, in the namespace of the process, and its other end."""
    try:
        lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()
    except OSError:
        return False
    inside_it = INTERFACE in {line.split(":")[0].strip() for line in lines}
    return inside_it and namespace_of(vnf) in netns.listnetns()
