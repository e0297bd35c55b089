# SPDX-License-Identifier: Apache-2.0
"""How long traffic stands still when the switch is ended in order and started again at once.

`python -m tests.switch.measure_restart`: datagrams, 1 ms apart, between two network namespaces over
system ports; the rules are the bridge's own (NORMAL). The gap is the longest between two arrivals.
`--no-offload` lets senders compute checksums themselves, for switches that need that.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

from tests.support.switch import running_switch
from tests.switch.test_switch_kernel_ports import SERVER, Wire, _ping, until

RECEIVE = """
import socket, sys, time
receiver = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
receiver.bind(("{server}", 999))
receiver.settimeout({seconds})
last = longest = 0.0
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    receiver.recv(100)
    now = time.monotonic()
    if last: longest = max(longest, now - last)
    last = now
print(longest)
"""
SEND = """
import socket, time
sender = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
end = time.monotonic() + {seconds}
while time.monotonic() < end:
    sender.sendto(bytes(20), ("{server}", 999))
    time.sleep(0.001)
"""
SECONDS = 6.0


def gap(memory_mb: int, offload: bool) -> float:
    """Seconds without an arrival around one restart."""
    with (
        tempfile.TemporaryDirectory(prefix="headrace-test-") as folder,
        running_switch(Path(folder), memory_mb=memory_mb) as switch,
        Wire(switch, "system", "system") as wire,
    ):
        client, server = wire.namespaces
        if not offload:
            for namespace in wire.namespaces:
                name = namespace.run("sh", "-c", "ls /sys/class/net | grep -v lo").strip()
                namespace.run("ethtool", "-K", name, "tx", "off")
        until(lambda: _ping(wire), "a ping before the restart")
        values = {"server": SERVER, "seconds": SECONDS}
        receiver = server.start("python3", "-c", RECEIVE.format(**values))
        sender = client.start("python3", "-c", SEND.format(server=SERVER, seconds=SECONDS + 2))
        time.sleep(1)
        switch.stop_switch()
        switch.start_switch()
        told, errors = receiver.communicate(timeout=30)
        sender.wait(30)
        assert told, errors
        return float(told)


def main() -> None:
    """Prints each gap, and their median."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--memory-mb", type=int, default=256)
    parser.add_argument("--no-offload", action="store_true")
    given = parser.parse_args()
    gaps = [gap(given.memory_mb, not given.no_offload) for _ in range(given.repeats)]
    print(" ".join(f"{each:.2f}" for each in gaps), f"median {statistics.median(gaps):.2f} s")


if __name__ == "__main__":
    main()
