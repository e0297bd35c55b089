# SPDX-License-Identifier: Apache-2.0
"""Hostile controllers: forwarding goes on, memory stays bounded, others are served."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.switch import Switch, running_switch

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

BRIDGE = f"bad{os.getpid()}"
SECONDS = 4.0
# What the agent may hold for one connection is 16 MiB (connection.h); there are 4 hostile ones.
MEMORY_KB = 4 * 16 * 1024 + 32 * 1024

FLOW_MOD, PACKET_OUT, MULTIPART, SET_CONFIG = 14, 13, 18, 9
NO_BUFFER, ANY = 0xFFFFFFFF, 0xFFFFFFFF


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switch]:
    with running_switch(tmp_path_factory.mktemp("hostile"), extra=("--no-huge",)) as running:
        running.vsctl(
            *("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "fail-mode=secure"),
            *("--", "add-port", BRIDGE, "in1", "--", "set", "Interface", "in1", "type=dpdk"),
            *("ofport_request=1", "options:dpdk-devargs=net_null_in"),
            *("--", "add-port", BRIDGE, "out2", "--", "set", "Interface", "out2", "type=dpdk"),
            *("ofport_request=2", "options:dpdk-devargs=net_null_out,no-rx=1"),
        )
        running.ofctl("add-flow", BRIDGE, "priority=100,in_port=1,actions=output:2")
        yield running


def message(kind: int, body: bytes = b"") -> bytes:
    """An OpenFlow 1.3 message."""
    return struct.pack("!BBHI", 4, kind, 8 + len(body), 7) + body


def flow_mod(number: int) -> bytes:
    """Adds a flow of its own to table 1; it matches metadata."""
    oxm = struct.pack("!HBBQ", 0x8000, 2 << 1, 8, number)
    return message(
        FLOW_MOD,
        struct.pack("!QQBBHHHIIIHxx", 0, 0, 1, 0, 0, 0, 1, NO_BUFFER, ANY, ANY, 0)
        + struct.pack("!HH", 1, 4 + len(oxm))
        + oxm,
    )


def all_flows() -> bytes:
    """Asks for every flow."""
    return message(
        MULTIPART,
        struct.pack("!HHI", 1, 0, 0)
        + struct.pack("!BxxxIIIQQ", 0xFF, ANY, ANY, 0, 0, 0)
        + struct.pack("!HHI", 1, 4, 0),
    )


def never_reads(connection: socket.socket, _: random.Random) -> bytes:
    """Asks for all flows again and again."""
    return all_flows() * 20


def garbage(_: socket.socket, rng: random.Random) -> bytes:
    """Octets at random after a plausible header."""
    body = rng.randbytes(rng.randrange(0, 400))
    return struct.pack("!BBHI", 4, rng.randrange(32), 8 + len(body), 1) + body


def flow_flood(_: socket.socket, rng: random.Random) -> bytes:
    """Flow-mods by the hundred; reads no errors."""
    return b"".join(flow_mod(rng.randrange(20_000)) for _ in range(200))


def packet_outs(_: socket.socket, rng: random.Random) -> bytes:
    """Packets to the controller, which come back as packet-ins that it does not read."""
    action = struct.pack("!HHIHxxxxxx", 0, 16, 0xFFFFFFFD, 0xFFFF)
    body = struct.pack("!IIHxxxxxx", NO_BUFFER, 0xFFFFFFFD, len(action)) + action
    return message(PACKET_OUT, body + rng.randbytes(1400)) * 50


Attack = Callable[[socket.socket, random.Random], bytes]


def attack(path: Path, how: Attack, stop: threading.Event) -> None:
    """Sends what `how` makes, and reads nothing; connects again when it is thrown out."""
    rng = random.Random(1)
    while not stop.is_set():
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(0.1)
            try:
                connection.connect(str(path))
                connection.sendall(message(0) + message(SET_CONFIG, b"\0\0\xff\xff"))
                while not stop.is_set():
                    try:
                        connection.sendall(how(connection, rng))
                    except TimeoutError:
                        continue  # not read from: what it wants
            except OSError:
                time.sleep(0.01)


def memory_kb(switch: Switch) -> int:
    """The process's resident memory."""
    assert switch.process is not None
    status = Path(f"/proc/{switch.process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def forwarded(switch: Switch) -> int:
    """Frames that port 2 was sent, from the control socket."""
    return int(switch.port("out2")["counters"]["tx_packets"])


def test_forwarding_goes_on_and_memory_is_bounded(switch: Switch) -> None:
    path = switch.rundir / f"{BRIDGE}.mgmt"
    stop = threading.Event()
    attackers = [
        threading.Thread(target=attack, args=(path, how, stop), daemon=True)
        for how in (never_reads, garbage, flow_flood, packet_outs)
    ]
    before = memory_kb(switch)
    for attacker in attackers:
        attacker.start()
    try:
        end = time.monotonic() + SECONDS
        last = forwarded(switch)
        while time.monotonic() < end:
            time.sleep(0.2)
            now = forwarded(switch)
            assert now > last, "nothing was forwarded meanwhile"
            last = now
        # Somebody else is served, too.
        assert "in_port=1" in switch.ofctl("dump-flows", BRIDGE, "table=0")
        grown = memory_kb(switch) - before
        # 20 000 flows take some MiB of their own.
        assert grown < MEMORY_KB + 20_000, f"{grown} KiB more"
    finally:
        stop.set()
        for attacker in attackers:
            attacker.join()
    assert switch.process is not None
    assert switch.process.exit_code is None
    switch.ofctl("del-flows", BRIDGE, "table=1")
    assert "in_port=1" in switch.ofctl("dump-flows", BRIDGE)
