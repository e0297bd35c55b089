# SPDX-License-Identifier: Apache-2.0
"""The queues of another process's packet sockets: made longer, and what they lose is known."""

from __future__ import annotations

import os
import socket

import pytest

from tests.conformance_openflow.sockets import QUEUE_BYTES, PacketSockets

pytestmark = pytest.mark.root

ETH_P_ALL = 3
FRAMES = 200
FRAME = b"x" * 1400


def test_queues_grow_and_their_losses_are_told() -> None:
    receiver, sender = socket.socketpair(socket.AF_UNIX)
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    with receiver, sender, packets, udp:
        packets.bind(("lo", ETH_P_ALL))
        sockets = PacketSockets(os.getpid())
        assert len(sockets) == 1
        # The kernel doubles what is asked for.
        assert packets.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) == 2 * QUEUE_BYTES
        for _ in range(FRAMES):
            udp.sendto(FRAME, ("127.0.0.1", 9))
        assert sockets.lost() == 0
        # One frame at most finds room in the shortest queue that the kernel gives.
        packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1)
        for _ in range(FRAMES):
            udp.sendto(FRAME, ("127.0.0.1", 9))
        assert sockets.lost() >= FRAMES
        sockets.close()
