# SPDX-License-Identifier: Apache-2.0
"""A controller that sends as fast as it can.

`python -m tests.openflow.controllers.flooding_controller PORT` listens at 127.0.0.1:PORT. It asks
for features, adds and deletes flows of table 1, and sends packets out that come back as packet-ins;
what it is answered it throws away.
"""

from __future__ import annotations

import socket
import struct
import sys
import threading

HELLO, FEATURES, SET_CONFIG, PACKET_OUT, FLOW_MOD = 0, 5, 9, 13, 14
NONE = 0xFFFFFFFF
CONTROLLER = 0xFFFFFFFD


def message(kind: int, body: bytes = b"") -> bytes:
    """An OpenFlow 1.3 message."""
    return struct.pack("!BBHI", 4, kind, 8 + len(body), 1) + body


def flow_mod(number: int, command: int) -> bytes:
    """Adds (0) or deletes (3) the flow of table 1 that matches this metadata."""
    oxm = struct.pack("!HBBQ", 0x8000, 2 << 1, 8, number)
    fixed = struct.pack("!QQBBHHHIIIHxx", 0, 0, 1, command, 0, 0, 1, NONE, NONE, NONE, 0)
    return message(FLOW_MOD, fixed + struct.pack("!HH", 1, 4 + len(oxm)) + oxm)


def packet_out() -> bytes:
    """A packet that goes to the controller."""
    action = struct.pack("!HHIHxxxxxx", 0, 16, CONTROLLER, 0xFFFF)
    head = struct.pack("!IIHxxxxxx", NONE, CONTROLLER, len(action))
    return message(PACKET_OUT, head + action + bytes(64))


def discard(connection: socket.socket) -> None:
    """Reads until the end."""
    try:
        while connection.recv(1 << 16):
            pass
    except OSError:
        return  # closed


def main() -> None:
    """Serves one switch after the other."""
    flood = b"".join(
        message(FEATURES) + flow_mod(number, 0) + packet_out() + flow_mod(number, 3)
        for number in range(200)
    )
    with socket.create_server(("127.0.0.1", int(sys.argv[1]))) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=discard, args=(connection,), daemon=True).start()
            with connection:
                try:
                    connection.sendall(message(HELLO) + message(SET_CONFIG, b"\0\0\xff\xff"))
                    while True:
                        connection.sendall(flood)
                except OSError:
                    continue  # thrown out; it will come again


if __name__ == "__main__":
    main()
