# SPDX-License-Identifier: Apache-2.0
"""Direct links: VNFs that the rules join to nothing else, joined past the switch.

The VNFs are ports of libheadrace-port in the test itself, which calls for each in turn, or child
processes where one has to be stopped or killed.
"""

from __future__ import annotations

import mmap
import random
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.engines.shared_memory import AttachError, Attachment, attached
from tests.support.frames import udp_frame
from tests.support.headrace_port import VnfPort
from tests.support.switch import Switch, unique_bridge

pytestmark = [pytest.mark.root, pytest.mark.dpdk, pytest.mark.timeout(180)]

_GROUP = "g"


@pytest.fixture
def bridge(switch: Switch) -> str:
    """A bridge with ports a, b, c (numbers 1, 2, 3) of one trust group, and x of another (4)."""
    name = unique_bridge()
    switch.vsctl("add-br", name, "--", "set", "Bridge", name, "fail-mode=secure")
    for number, port in enumerate("abcx", start=1):
        group = "other" if port == "x" else _GROUP
        switch.vsctl(
            "add-port", name, port, "--", "set", "Interface", port, "type=shm",
            f"options:group={group}", "options:buffers=1024", f"ofport_request={number}",
        )  # fmt: skip
    return name


class Vnfs:
    """The VNFs of a test, by port."""

    def __init__(self, switch: Switch, ports: str = "abc") -> None:
        self.switch = switch
        self.ports: dict[str, VnfPort] = {}
        for port in ports:
            self.attach(port)

    def attach(self, port: str) -> VnfPort:
        group = "other" if port == "x" else _GROUP
        self.ports[port] = VnfPort(self.switch.rundir / f"{group}.shm", port)
        return self.ports[port]

    def close(self) -> None:
        for port in self.ports.values():
            port.close()

    def __getitem__(self, port: str) -> VnfPort:
        return self.ports[port]


@pytest.fixture
def vnfs(switch: Switch, bridge: str) -> Iterator[Vnfs]:
    """VNFs on a, b and c."""
    made = Vnfs(switch)
    yield made
    made.close()


def link(switch: Switch, port: str) -> dict[str, Any]:
    """What `links` says of a port."""
    return next(dict(link) for link in switch.call("links")["links"] if link["port"] == port)


def until(done: Callable[[], bool], act: Callable[[], object] = lambda: None) -> None:
    """Acts until it is so."""
    end = time.monotonic() + 20
    while not done():
        assert time.monotonic() < end, "it never came to be"
        act()


def answer(*ports: VnfPort) -> None:
    """Lets idle VNFs see what the switch wishes; nothing must come."""
    for port in ports:
        assert port.receive() == []


def link_up(switch: Switch, sender: VnfPort, receiver: VnfPort, name: str = "a") -> None:
    """Waits for the link to be on, with VNFs that have nothing to do."""
    until(lambda: link(switch, name)["state"] == "on", lambda: answer(sender, receiver))


def gather(port: VnfPort, count: int) -> list[bytes]:
    """Receives until there are `count` frames."""
    frames: list[bytes] = []
    until(lambda: len(frames) >= count, lambda: frames.extend(port.receive()))
    return frames


def send_all(port: VnfPort, frames: list[bytes]) -> None:
    """Sends them; waits for the switch to bring empty buffers where they run out."""
    left = list(frames)

    def send() -> None:
        del left[: port.send(left)]

    until(lambda: not left, send)


def send_until_one_comes(port: VnfPort) -> None:
    """Sends bursts until something comes back."""
    frames: list[bytes] = []

    def act() -> None:
        port.send(numbered(0, 32))
        frames.extend(port.receive())

    until(lambda: bool(frames), act)


def numbered(first: int, count: int, size: int = 60) -> list[bytes]:
    """Frames that say where they stand in a stream."""
    return [udp_frame(payload=struct.pack("!I", first + n), size=size) for n in range(count)]


def number_of(frame: bytes) -> int:
    """Where a frame of numbered() stands."""
    return int(struct.unpack_from("!I", frame, 42)[0])


def flow(switch: Switch, bridge: str, text: str) -> tuple[int, int]:
    """The packets and octets that a flow shows."""
    line = next(x for x in switch.ofctl("dump-flows", bridge).splitlines() if text in x)
    fields = dict(part.strip().split("=", 1) for part in line.split(",") if "=" in part)
    return int(fields["n_packets"]), int(fields["n_bytes"])


def test_counts_are_right_to_the_packet(switch: Switch, bridge: str, vnfs: Vnfs) -> None:
    switch.ofctl("add-flow", bridge, "in_port=1,actions=goto_table:3")
    switch.ofctl("add-flow", bridge, "table=3,priority=7,actions=output:2")
    assert "no rule takes its packets" in link(switch, "b")["reason"]
    link_up(switch, vnfs["a"], vnfs["b"])
    assert vnfs["a"].is_direct
    sent, octets = 0, 0
    before = switch.call("cycles")["workers"][0]["packets"]
    for burst in range(100):
        frames = numbered(sent, 1 + burst % 32, size=60 + 7 * burst)
        send_all(vnfs["a"], frames)
        assert gather(vnfs["b"], len(frames)) == frames
        sent += len(frames)
        octets += sum(map(len, frames))
    assert flow(switch, bridge, "in_port=1") == (sent, octets)
    assert flow(switch, bridge, "priority=7") == (sent, octets)
    assert switch.call("cycles")["workers"][0]["packets"] == before, "no worker saw one"
    report = link(switch, "a")
    assert (report["to"], report["packets"], report["octets"]) == ("b", sent, octets)
    assert report["reason"] is None
    a, b = switch.port("a")["counters"], switch.port("b")["counters"]
    assert (a["rx_packets"], a["rx_bytes"]) == (b["tx_packets"], b["tx_bytes"]) == (sent, octets)
    assert f"rx pkts={sent}, bytes={octets}" in switch.ofctl("dump-ports", bridge, "1")
    assert f"tx pkts={sent}, bytes={octets}" in switch.ofctl("dump-ports", bridge, "2")
    tables = {t["table_id"]: t for t in switch.call("tables")["lsis"][0]["tables"]}
    assert tables[0]["matched"] == tables[3]["matched"] == sent

    def statistics() -> dict[str, int]:
        return dict(switch.interface("b", "statistics")[1])

    until(lambda: statistics().get("tx_packets") == sent, lambda: time.sleep(0.2))
    assert statistics()["tx_bytes"] == octets


def test_comes_and_goes_under_traffic(switch: Switch, bridge: str, vnfs: Vnfs) -> None:
    """A narrower rule comes and goes, and with it the link: all packets arrive, in order."""
    ended = threading.Event()

    def flap() -> None:
        while not ended.is_set():
            switch.ofctl("add-flow", bridge, "priority=40000,in_port=1,ip,actions=output:2")
            switch.ofctl("del-flows", bridge, "in_port=1,ip")

    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
    flapping = threading.Thread(target=flap)
    flapping.start()
    sent = expected = made = 0
    was_direct = False
    try:
        end = time.monotonic() + 60
        while made < 20 or sent < 50_000:
            assert time.monotonic() < end, f"the link was made {made} times"
            if sent - expected < 256:  # so that no queue of the switch is ever full
                sent += vnfs["a"].send(numbered(sent, 16))
            for frame in vnfs["b"].receive():
                assert number_of(frame) == expected
                expected += 1
            made += vnfs["a"].is_direct and not was_direct
            was_direct = vnfs["a"].is_direct
    finally:
        ended.set()
        flapping.join()
    while expected < sent:
        for frame in vnfs["b"].receive():
            assert number_of(frame) == expected
            expected += 1
    assert vnfs["c"].receive() == []
    a, b = switch.port("a")["counters"], switch.port("b")["counters"]
    assert a["rx_packets"] == b["tx_packets"] == sent
    assert a["rx_bytes"] == b["tx_bytes"] == 60 * sent
    assert switch.call("drops")["lsis"][0]["drops"] == {}
    assert 0 < link(switch, "a")["packets"] < sent, "both ways were used"


def test_new_rules_send_elsewhere(switch: Switch, bridge: str, vnfs: Vnfs) -> None:
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
    for receiver, number in (("c", 3), ("b", 2)) * 3:
        other = "b" if receiver == "c" else "c"
        link_up(switch, vnfs["a"], vnfs[other])
        send_all(vnfs["a"], numbered(0, 9))
        assert gather(vnfs[other], 9) == numbered(0, 9)
        switch.ofctl("mod-flows", bridge, f"in_port=1,actions=output:{number}")
        until(lambda: not vnfs["a"].is_direct, lambda: answer(vnfs["a"], vnfs["b"], vnfs["c"]))
        send_all(vnfs["a"], numbered(9, 9))
        assert gather(vnfs[receiver], 9) == numbered(9, 9)
        assert vnfs[other].receive() == []
    assert flow(switch, bridge, "in_port=1") == (6 * 18, 6 * 18 * 60)


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (["in_port=1,actions=meter:1,output:2"], "meter 1"),
        (["in_port=1,actions=group:1"], "group 1"),
        (["in_port=1,actions=output:2,CONTROLLER"], "packets go to the controller"),
        (["in_port=1,actions=output:2,output:3"], "several outputs"),
        (["in_port=1,actions=set_field:02:00:00:00:00:09->eth_dst,output:2"], "it changes packets"),
        (["in_port=1,idle_timeout=600,actions=output:2"], "idle timeout"),
        (["in_port=1,actions=output:4"], "of the trust group other"),
        (["in_port=1,actions=output:2", "in_port=3,udp,actions=FLOOD"], "port c may go to b too"),
        (["in_port=1,actions=output:LOCAL"], "of another kind"),
    ],
)
def test_says_what_keeps_a_pair_on_the_switch(
    switch: Switch, bridge: str, vnfs: Vnfs, rules: list[str], reason: str
) -> None:
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
    link_up(switch, vnfs["a"], vnfs["b"])
    if "meter" in reason:
        switch.ofctl("add-meter", bridge, "meter=1,kbps,band=type=drop,rate=1000000")
    if "group 1" in reason:
        switch.ofctl("add-group", bridge, "group_id=1,type=indirect,bucket=actions=output:2")
    for rule in rules:
        switch.ofctl("add-flow", bridge, rule)
    until(lambda: link(switch, "a")["state"] == "off", lambda: answer(vnfs["a"], vnfs["b"]))
    assert reason in link(switch, "a")["reason"]
    assert not vnfs["a"].is_direct


def test_a_packet_out_passes_a_linked_port(switch: Switch, bridge: str, vnfs: Vnfs) -> None:
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
    link_up(switch, vnfs["a"], vnfs["b"])
    frame = udp_frame()
    switch.ofctl("packet-out", bridge, f"in_port=CONTROLLER,packet={frame.hex()},actions=output:2")
    assert gather(vnfs["b"], 1) == [frame]
    assert link(switch, "a")["state"] == "on"


def test_leads_through_a_patch(switch: Switch, bridge: str, vnfs: Vnfs) -> None:
    other = unique_bridge()
    switch.vsctl("add-br", other, "--", "set", "Bridge", other, "fail-mode=secure")
    for here, name, peer in ((bridge, "up", "down"), (other, "down", "up")):
        switch.vsctl(
            "add-port", here, name, "--", "set", "Interface", name, "type=patch",
            f"options:peer={peer}", "ofport_request=9",
        )  # fmt: skip
    switch.vsctl(
        "add-port", other, "far", "--", "set", "Interface", "far", "type=shm",
        f"options:group={_GROUP}", "ofport_request=1",
    )  # fmt: skip
    far = vnfs.attach("far")
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:9")
    switch.ofctl("add-flow", other, "in_port=9,actions=output:1")
    link_up(switch, vnfs["a"], far)
    send_all(vnfs["a"], numbered(0, 20))
    assert gather(far, 20) == numbered(0, 20)
    assert flow(switch, other, "in_port=9") == (20, 1200)
    for port, key in (("a", "rx"), ("up", "tx"), ("down", "rx"), ("far", "tx")):
        assert switch.port(port)["counters"][f"{key}_packets"] == 20
    switch.vsctl("del-port", other, "down")
    until(lambda: link(switch, "a")["state"] == "off", lambda: answer(vnfs["a"], far))
    assert "patch up leads nowhere" in link(switch, "a")["reason"]


def test_vnfs_that_come_again_are_linked_again(switch: Switch, bridge: str, vnfs: Vnfs) -> None:
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
    sent = 0
    for gone in ("b", "a", "b", "a"):
        link_up(switch, vnfs["a"], vnfs["b"])
        send_all(vnfs["a"], numbered(0, 8))
        sent += 8
        if gone == "a":
            vnfs["a"].close()
            assert gather(vnfs["b"], 8) == numbered(0, 8), "what was sent before arrives"
        else:
            vnfs["b"].close()
            until(lambda: link(switch, "a")["state"] == "off", vnfs["a"].receive)
            assert "no VNF is attached to b" in link(switch, "a")["reason"]
        vnfs.attach(gone)
    assert flow(switch, bridge, "in_port=1") == (sent, 60 * sent)


@contextmanager
def child(socket: Path, port: str, what: str) -> Iterator[subprocess.Popen[str]]:
    """A VNF of its own process on a port: `drain` reads and frees, `pass` is drain for two
    ports named `x,y` that forwards."""
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from tests.support.headrace_port import VnfPort\n"
        "ports = [VnfPort(Path(sys.argv[1]), name) for name in sys.argv[2].split(',')]\n"
        "print('ready', flush=True)\n"
        "while True:\n"
        "    ports[0].receive() if sys.argv[3] == 'drain' else ports[0].forward(ports[-1])\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(socket), port, what],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "ready"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_vnf_that_is_killed_or_stopped_harms_nobody_else(
    switch: Switch, bridge: str, how: signal.Signals
) -> None:
    """A sends to b; the VNF of b and c passes it back to a; it is hit, full of packets, five times.
    The other group goes on, and no buffer is lost."""
    vnfs = Vnfs(switch, "ax")
    try:
        for rule in ("in_port=1,actions=output:2", "in_port=3,actions=output:1"):
            switch.ofctl("add-flow", bridge, rule)
        for _ in range(5):
            with child(switch.rundir / f"{_GROUP}.shm", "b,c", "pass") as passing:
                until(lambda: link(switch, "a")["state"] == "on", vnfs["a"].receive)
                until(lambda: link(switch, "c")["state"] == "on", vnfs["a"].receive)
                for _ in range(50):
                    vnfs["a"].send(numbered(0, 32))
                    vnfs["a"].receive()
                send_until_one_comes(vnfs["a"])
                passing.send_signal(how)
                for _ in range(1024 // 32):  # all buffers, if nobody takes them back meanwhile
                    vnfs["a"].send(numbered(0, 32))
                # Another group: packets go to and fro.
                switch.ofctl("add-flow", bridge, "in_port=4,actions=IN_PORT")
                send_all(vnfs["x"], numbered(0, 5))
                assert gather(vnfs["x"], 5) == numbered(0, 5)
            until(lambda: link(switch, "a")["state"] == "off", vnfs["a"].receive)
            until(lambda: link(switch, "c")["state"] == "off", vnfs["a"].receive)
        check_no_buffer_is_lost(vnfs["a"])
    finally:
        vnfs.close()


def check_no_buffer_is_lost(port: VnfPort) -> None:
    """A VNF that takes all buffers that it can gets all 1024 of the group but those that wait, or
    are cached, elsewhere: what four ports are given in advance and a worker keeps."""
    held: set[int] = set()

    def take() -> None:
        port.receive()
        held.update(port.take_all())

    until(lambda: len(held) >= 1024 - 4 * 16, take)
    port.give_back(held)


@contextmanager
def attached_when_free(socket: Path, *ports: str) -> Iterator[Attachment]:
    """attached(), once the switch has taken back what the ports' last user held."""
    with ExitStack() as stack:
        made: list[Attachment] = []

        def attach() -> None:
            try:
                made.append(stack.enter_context(attached(socket, *ports)))
            except AttachError as error:
                assert error.is_busy, error
                time.sleep(0.05)

        until(lambda: bool(made), attach)
        yield made[0]


def test_garbage_in_a_region_harms_its_group_alone(switch: Switch, rundir: Path) -> None:
    name = unique_bridge()
    switch.vsctl("add-br", name, "--", "set", "Bridge", name, "fail-mode=secure")
    for number, port in enumerate("abxy", start=1):
        group = _GROUP if port in "ab" else "other"
        switch.vsctl(
            "add-port", name, port, "--", "set", "Interface", port, "type=shm",
            f"options:group={group}", "options:buffers=1024", "options:ivshmem=true",
            f"ofport_request={number}",
        )  # fmt: skip
        switch.ofctl("add-flow", name, f"in_port={number},actions=output:{(number - 1 ^ 1) + 1}")
    dice = random.Random(4)
    with ExitStack() as stack:
        x, y = (VnfPort(rundir / "other.shm", port) for port in "xy")
        stack.callback(x.close)
        stack.callback(y.close)
        for _ in range(3):
            with attached_when_free(rundir / f"{_GROUP}.shm", "a", "b") as attachment:
                region = mmap.mmap(attachment.region, attachment.size)
                control = struct.unpack_from("<Q", region, 32)[0]  # where buffers begin
                for sent in range(300):
                    for _ in range(20):
                        at = dice.randrange(128, control - 4) & ~3
                        region[at : at + 4] = dice.randbytes(4)
                    if sent == 100:
                        link_up(switch, x, y, "x")
                    if sent >= 100:
                        send_all(x, numbered(sent, 1))
                        assert gather(y, 1) == numbered(sent, 1)
                region.close()
            until(
                lambda: not any(switch.port(port)["link_up"] for port in "ab"),
                lambda: time.sleep(0.05),
            )
        assert link(switch, "x")["packets"] == 600
        # The garbage is gone with who wrote it: the group works again.
        a, b = (VnfPort(rundir / f"{_GROUP}.shm", port) for port in "ab")
        stack.callback(a.close)
        stack.callback(b.close)
        link_up(switch, a, b)
        send_all(a, numbered(0, 9))
        assert gather(b, 9) == numbered(0, 9)


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_survives_a_restart_of_the_switch(
    switch: Switch, bridge: str, vnfs: Vnfs, how: signal.Signals
) -> None:
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
    link_up(switch, vnfs["a"], vnfs["b"])
    switch.stop_switch(how)
    until(lambda: not vnfs["a"].is_connected)
    vnfs.close()
    switch.start_switch()
    switch.vsctl("--timeout=15", "get", "Interface", "a", "ofport")
    for port in "abc":
        vnfs.attach(port)
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
    link_up(switch, vnfs["a"], vnfs["b"])
    send_all(vnfs["a"], numbered(0, 9))
    assert gather(vnfs["b"], 9) == numbered(0, 9)
    assert flow(switch, bridge, "in_port=1") == (9, 540)
