# SPDX-License-Identifier: Apache-2.0
"""The kinds of channel, each in its fastest setting, and the cases measured on them."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

FCS = 4
SIZES = (64, 700, 1500)
"""Octets of a frame with its FCS; a buffer holds 4 less."""


class Network(StrEnum):
    """The kernel networking that a kind uses."""

    NONE = "none"
    VETH = "veth"
    """A veth pair between two network namespaces."""
    BRIDGE = "bridge"
    """Two taps on a bridge of one network namespace."""


@dataclass(frozen=True)
class Kind:
    """A kind of channel.

    Attributes:
        name: as rows are named.
        setting: description of the settings.
        arguments: of headrace-channel; `{dir}` is a directory of the run.
        network: kernel interfaces to create for it.
        switch_ports: kind of the two ports at a Headrace switch between the ends; "" without one.
        circulates: the consumer sends buffers back by the same channel, so packets go both ways.
        links: rules join the two ports both ways, so that the switch makes direct links; it is
            parked once they are made.
    """

    name: str
    setting: str
    arguments: tuple[str, ...]
    network: Network = Network.NONE
    switch_ports: str = ""
    circulates: bool = False
    links: bool = False


@dataclass(frozen=True)
class Case:
    """A case measured on a kind."""

    size: int
    touch: bool

    @property
    def name(self) -> str:
        """As rows are named."""
        return f"{self.size}B {'touched' if self.touch else 'pointers'}"


CASES: Sequence[Case] = tuple(Case(size, touch) for touch in (False, True) for size in SIZES)

_AF_PACKET = "net_af_packet{n},iface={iface},qdisc_bypass=1,framesz=2048,framecnt=4096"

_SHM_PORTS = (
    *("--socket", "{group}", "--producer-port", "producer", "--consumer-port", "consumer"),
)


def _devices(producer: str, consumer: str) -> tuple[str, ...]:
    return ("ethdev", "--producer", producer, "--consumer", consumer)


def _virtio(options: str) -> tuple[str, ...]:
    path = "{dir}/vhost.sock"
    return _devices(
        f"net_virtio_user0,path={path},queue_size=1024,in_order=1,mrg_rxbuf=0{options}",
        f"net_vhost0,iface={path},queues=1",
    )


def _memif(role: str, options: str = "", socket: str = "memif", number: int = 0) -> str:
    where = f"socket={{dir}}/{socket}.sock,socket-abstract=no,id=0"
    return f"net_memif{number},role={role},{where}{options}"


KINDS: Sequence[Kind] = (
    Kind(
        "veth",
        "AF_PACKET with mapped rings at both ends, bypassing the queueing discipline",
        _devices(
            _AF_PACKET.replace("{n}", "0").replace("{iface}", "hrchan0"),
            _AF_PACKET.replace("{n}", "1").replace("{iface}", "hrchan1"),
        ),
        network=Network.VETH,
    ),
    Kind(
        "tap",
        "two taps on a Linux bridge",
        _devices("net_tap0,iface=hrchan0", "net_tap1,iface=hrchan1"),
        network=Network.BRIDGE,
    ),
    Kind("vhost-split", "virtio-user to vhost, split ring, in order", _virtio("")),
    Kind(
        "vhost-packed",
        "virtio-user to vhost, packed ring, in order, vectorised by AVX-512",
        _virtio(",packed_vq=1,vectorized=1"),
    ),
    Kind("memif", "net_memif, client to server", _devices(_memif("client"), _memif("server"))),
    Kind(
        "memif-zc",
        "net_memif, client to server, zero copy at the client",
        _devices(_memif("client", ",zero-copy=yes"), _memif("server")),
    ),
    Kind(
        "switch-memif",
        "two memif ports of headrace-switch, one rule",
        _devices(
            _memif("client", socket="producer"), _memif("client", socket="consumer", number=1)
        ),
        switch_ports="memif",
    ),
    Kind(
        "switch-shm",
        "two shm ports of headrace-switch in one trust group, one rule that no direct link can be "
        "made of",
        ("shm", "--no-direct", *_SHM_PORTS),
        switch_ports="shm",
    ),
    Kind(
        "direct",
        "two shm ports that headrace-switch joins by a direct link each way, 1024 buffers in "
        "circulation; the switch is stopped once the links are made",
        ("shm", *_SHM_PORTS),
        switch_ports="shm",
        circulates=True,
        links=True,
    ),
    Kind(
        "ring",
        "a bare ring of numbers each way, 1024 buffers in circulation",
        ("ring",),
        circulates=True,
    ),
    Kind(
        "ring-one-way",
        "a bare ring of numbers, without packets and without a return ring",
        ("ring", "--one-way"),
    ),
)


def cases_of(kind: Kind) -> Sequence[Case]:
    """All cases; only one for a ring without packets."""
    return CASES[:1] if "--one-way" in kind.arguments else CASES


def chosen(only: str) -> list[Kind]:
    """The kinds whose name contains a word of `only` (comma-separated); all if it is empty.

    Raises:
        ValueError: none does; the text lists all.
    """
    words = [word.strip() for word in only.split(",") if word.strip()]
    found = [kind for kind in KINDS if not words or any(word in kind.name for word in words)]
    if not found:
        names = ", ".join(kind.name for kind in KINDS)
        raise ValueError(f"no kind of channel contains {only!r}; known: {names}")
    return found
