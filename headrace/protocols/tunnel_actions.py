# SPDX-License-Identifier: Apache-2.0
"""Headrace's experimenter actions on the wire, and as notes that ovs-ofctl can carry.

The layout is that of dataplane/openflow/codec/tunnel_actions.h: an experimenter action of OpenFlow
1.3.5 (7.2.5) with the experimenter 0x00524143, or Nicira's `note` that begins with the same octets.
"""

import ipaddress
import struct
from dataclasses import dataclass
from enum import IntEnum
from typing import Self

EXPERIMENTER = 0x00524143
_ACTION_EXPERIMENTER = 0xFFFF
_PUSH, _POP, _REMEMBER = 1, 2, 3
_IPV6, _KEY, _CHECKSUM, _DF, _LAYER3, _ID_FROM_FIELD, _INHERIT_TOS, _INHERIT_TTL = (
    1 << bit for bit in range(8)
)

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


class Kind(IntEnum):
    """The tunnels that Headrace can push and pop."""

    VXLAN = 1
    GRE = 2
    GTPU = 3

    @classmethod
    def named(cls, name: str) -> Self:
        """The kind of a lower-case name; ValueError with the known names."""
        try:
            return cls[name.upper()]
        except KeyError:
            names = ", ".join(kind.name.lower() for kind in cls)
            raise ValueError(f"no tunnel is called {name!r}; known: {names}") from None


class _Action:
    """The base of the actions: their two encodings."""

    def payload(self) -> bytes:
        """The octets after the experimenter."""
        raise NotImplementedError

    def experimenter(self) -> bytes:
        """The whole action, for an OpenFlow 1.3 message."""
        body = struct.pack("!I", EXPERIMENTER) + self.payload()
        return struct.pack("!HH", _ACTION_EXPERIMENTER, 4 + len(body)) + body

    def note(self) -> str:
        """The action in ovs-ofctl's syntax: `note:00.52.41...`."""
        octets = struct.pack("!I", EXPERIMENTER) + self.payload()
        return "note:" + octets.hex(".")


@dataclass(frozen=True)
class PushTunnel(_Action):
    """Prepends an outer header to the packet.

    `tunnel_id` None takes the id from the field tunnel_id. `tos` and `ttl` None are inherited from
    the inner IP header. `dst_port` 0 is the protocol's own. GRE without `key` carries no id;
    `layer3` GRE carries IP without Ethernet, which GTP-U always does.
    """

    kind: Kind
    local: IpAddress
    remote: IpAddress
    src_mac: str
    dst_mac: str
    tunnel_id: int | None = 0
    key: bool = True
    checksum: bool = False
    dont_fragment: bool = True
    layer3: bool = False
    tos: int | None = 0
    ttl: int | None = 64
    dst_port: int = 0

    def __post_init__(self) -> None:
        """Rejects values that the switch would reject."""
        most = 0xFFFFFF if self.kind is Kind.VXLAN else 0xFFFFFFFF
        if self.tunnel_id is not None and not 0 <= self.tunnel_id <= most:
            raise ValueError(f"{self.kind.name.lower()}: a tunnel id is 0 to {most}")
        if self.local.version != self.remote.version:
            raise ValueError("the outer addresses must be of one IP version")
        if self.ttl == 0:
            raise ValueError("an outer TTL of 0 is not forwarded")

    def payload(self) -> bytes:
        """The octets after the experimenter."""
        flags = (
            (_IPV6 if self.local.version == 6 else 0)
            | (_KEY if self.key else 0)
            | (_CHECKSUM if self.checksum else 0)
            | (_DF if self.dont_fragment else 0)
            | (_LAYER3 if self.layer3 else 0)
            | (_ID_FROM_FIELD if self.tunnel_id is None else 0)
            | (_INHERIT_TOS if self.tos is None else 0)
            | (_INHERIT_TTL if self.ttl is None else 0)
        )
        head = struct.pack(
            "!HBBBBHQ",
            _PUSH,
            self.kind,
            flags,
            self.tos or 0,
            64 if self.ttl is None else self.ttl,
            self.dst_port,
            self.tunnel_id or 0,
        )
        macs = _mac(self.src_mac) + _mac(self.dst_mac) + bytes(4)
        return (
            head + macs + self.local.packed.ljust(16, b"\0") + self.remote.packed.ljust(16, b"\0")
        )


@dataclass(frozen=True)
class PopTunnel(_Action):
    """Removes an outer header; the next table can match tunnel_id and outer addresses as tun_*."""

    kind: Kind

    def payload(self) -> bytes:
        """The octets after the experimenter."""
        return struct.pack("!HB5x", _POP, self.kind)


@dataclass(frozen=True)
class Remember(_Action):
    """In a bucket of a select group: the group remembers which bucket each flow was given.

    Groups of the same `pair` (not 0) share what they remember, by the numbers of their buckets, and
    a flow and what answers it are one to them.
    """

    idle_timeout: int  # seconds after which an idle flow is removed
    pair: int = 0

    def __post_init__(self) -> None:
        """Rejects values that the switch would reject."""
        if not 1 <= self.idle_timeout <= 0xFFFF:
            raise ValueError("an idle timeout is 1 to 65535 seconds")
        if not 0 <= self.pair <= 0xFFFF_FFFF:
            raise ValueError("a pair is a number of 32 bits")

    def payload(self) -> bytes:
        """The octets after the experimenter."""
        return struct.pack("!HHI", _REMEMBER, self.idle_timeout, self.pair)


def _mac(text: str) -> bytes:
    octets = bytes(int(part, 16) for part in text.split(":"))
    if len(octets) != 6:
        raise ValueError(f"{text!r} is not a MAC address")
    return octets
