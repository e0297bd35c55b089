# SPDX-License-Identifier: Apache-2.0
"""Whom an address belongs to, where requests are counted by address."""

import ipaddress


def peer_of(address: str) -> str:
    """An IPv4 address itself, also if IPv6 maps it; of any other the /64, one customer's network.

    What is no address is its own peer.
    """
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or ipaddress.ip_network((int(found), 64), strict=False))
