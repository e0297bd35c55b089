# SPDX-License-Identifier: Apache-2.0
"""Ports of type dpdkvhostuser and what a guest's driver may do with its queues."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import signal
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.frames import udp_frame
from tests.support.switch import Switch, running_switch
from tests.support.vhost_guest import (
    DESC_INDIRECT,
    DESC_NEXT,
    F_ACCESS_PLATFORM,
    F_MQ,
    F_MRG_RXBUF,
    F_PROTOCOL_FEATURES,
    F_VERSION_1,
    GET_FEATURES,
    GET_PROTOCOL_FEATURES,
    PAGE,
    PROTOCOL_F_PAGEFAULT,
    USER_BASE,
    Guest,
    Vring,
    guest,
)
from tests.support.vhost_ports import (
    add_guest_ports,
    collect,
    numbered,
    wait_for_link,
    wait_until,
)

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

SEED = 10
NOT_CARRIED = 1 << 9 | 1 << 10 | 1 << 14  # GUEST_ECN, GUEST_UFO, HOST_UFO
MERGEABLE, DIRTY_LOG, PACKED = 1 << 15, 1 << 26, 1 << 34
FRAMES = 100
BOTH_WORKERS = 'other_config:pmd-rxq-affinity="0:0,1:1"'


@pytest.fixture
def two_workers(rundir: Path) -> Iterator[Switch]:
    with running_switch(rundir, extra=("--no-huge",)) as switch:
        switch.vsctl("set", "Open_vSwitch", ".", "other_config:pmd-cpu-mask=0x3")
        yield switch


def test_one_pair_of_two_gets_the_traffic_of_both_workers(two_workers: Switch) -> None:
    switch, rundir = two_workers, two_workers.rundir
    add_guest_ports(switch, "from", "to", columns=("options:n_rxq=2", BOTH_WORKERS))
    with (
        guest(rundir / "from", pairs=2, enabled=(0, 1)) as sender,
        guest(rundir / "to", pairs=2, enabled=(0,)) as receiver,
    ):
        wait_for_link(switch, "from", "to")
        for number in range(FRAMES):
            sender.transmit(number % 2, numbered(number))
        frames = collect(receiver, FRAMES)
        assert sorted(frames[0]) == sorted(map(numbered, range(FRAMES))), switch.call("drops")
        assert frames[1] == [], "a pair that is not enabled"


def test_a_guest_with_more_pairs_than_receive_queues_is_served(two_workers: Switch) -> None:
    switch, rundir = two_workers, two_workers.rundir
    add_guest_ports(switch, "from", "to")
    with (
        guest(rundir / "from", pairs=3, enabled=(0, 1, 2)) as sender,
        guest(rundir / "to") as receiver,
    ):
        wait_for_link(switch, "from", "to")
        for number in range(FRAMES):
            sender.transmit(number % 3, numbered(number))
        frames = collect(receiver, FRAMES)
        assert sorted(frames[0]) == sorted(map(numbered, range(FRAMES))), switch.call("drops")


def test_pairs_that_come_and_go_under_load_lose_nothing(two_workers: Switch) -> None:
    switch, rundir = two_workers, two_workers.rundir
    add_guest_ports(switch, "from", "to", columns=("options:n_rxq=2", BOTH_WORKERS))
    with (
        guest(rundir / "from", pairs=2, enabled=(0, 1)) as sender,
        guest(rundir / "to", pairs=3, enabled=(0,)) as receiver,
    ):
        wait_for_link(switch, "from", "to")
        got: dict[int, list[bytes]] = {pair: [] for pair in range(3)}

        def under_way() -> int:
            for pair, frames in got.items():
                frames += receiver.received(pair)
            return sent - sum(map(len, got.values()))

        sent = 0
        enabled = {0}
        for turn in range(60):
            wanted = [{0, 1}, {1}, {1, 2}, {2}, {0, 2}, {0}][turn % 6]
            for pair in wanted - enabled:
                receiver.enable(pair)
            for pair in enabled - wanted:
                receiver.enable(pair, on=False)
            enabled = wanted
            # No more than a ring holds, whoever gets them.
            wait_until(lambda: under_way() <= 128, f"frames are missing: {switch.call('drops')}")
            for _ in range(64):
                sender.transmit(sent % 2, numbered(sent))
                sent += 1
        wait_until(lambda: under_way() == 0, f"frames are missing: {switch.call('drops')}")
        assert sorted(itertools.chain(*got.values())) == sorted(map(numbered, range(sent)))
        assert all(got.values()), "every pair had its share"


def test_guests_come_and_go_under_load(two_workers: Switch) -> None:
    switch, rundir = two_workers, two_workers.rundir
    add_guest_ports(switch, "from", "to", columns=("options:n_rxq=2", BOTH_WORKERS))
    with guest(rundir / "from", pairs=2, enabled=(0, 1)) as sender:
        for turn in range(10):
            with guest(rundir / "to", pairs=2, enabled=(0, 1)) as receiver:
                wait_for_link(switch, "from", "to")
                for number in range(FRAMES):
                    sender.transmit(number % 2, numbered(number))
                if turn % 2 == 0:  # else it goes while frames are on their way to it
                    frames = collect(receiver, FRAMES)
                    everything = sorted(frames[0] + frames[1])
                    assert everything == sorted(map(numbered, range(FRAMES))), (
                        f"turn {turn}: {switch.call('drops')}"
                    )
            wait_for_link(switch, "to", up=False)
    assert switch.process is not None and switch.process.exit_code is None


def test_the_latest_guest_has_the_port(switch: Switch) -> None:
    rundir = switch.rundir
    add_guest_ports(switch, "from", "to")
    with guest(rundir / "from") as sender, guest(rundir / "to") as first:
        wait_for_link(switch, "from", "to")
        with guest(rundir / "to") as second:
            wait_until(lambda: "another guest is ready" in _log(switch), "the switch says nothing")
            first.close()
            for number in range(FRAMES):
                sender.transmit(0, numbered(number))
            assert len(collect(second, FRAMES)[0]) == FRAMES


def _log(switch: Switch) -> str:
    return (switch.rundir / "switch.log").read_text()


def test_a_guest_is_kicked_only_if_it_sleeps(switch: Switch) -> None:
    rundir = switch.rundir
    add_guest_ports(switch, "from", "to")
    with guest(rundir / "from") as sender, guest(rundir / "to") as receiver:
        wait_for_link(switch, "from", "to")
        sender.transmit(0, numbered(0))
        assert len(collect(receiver, 1)[0]) == 1
        assert receiver.kicks(0) == 0, "it asked not to be kicked"
        receiver.vrings[0].suppress(False)
        for number in range(FRAMES):
            sender.transmit(0, numbered(number))
        assert len(collect(receiver, FRAMES)[0]) == FRAMES
        assert 0 < receiver.kicks(0) <= FRAMES
    wait_until(
        lambda: dict(switch.interface("to", "statistics")[1]).get("guest_notifications", 0) > 0,
        "kicks are not counted",
    )


def test_a_frame_longer_than_any_buffer_of_the_guest(two_workers: Switch) -> None:
    """It is dropped under a name, and those around it pass; a guest that merges buffers gets it."""
    switch, rundir = two_workers, two_workers.rundir
    add_guest_ports(switch, "from", "to", columns=("mtu_request=9000",))
    long_frame = udp_frame(size=3000)
    with guest(rundir / "from") as sender:
        for features, passes in ((0, False), (F_MRG_RXBUF, True)):
            with guest(rundir / "to", features=features) as receiver:
                wait_for_link(switch, "from", "to")
                for number in range(FRAMES):
                    frames = [*([long_frame] * (number % 4)), numbered(number)]
                    for frame in frames:
                        sender.transmit(0, frame)
                    expected = [frame for frame in frames if passes or frame != long_frame]
                    got = collect(receiver, len(expected))[0]
                    assert got == expected, switch.call("drops")
            wait_for_link(switch, "to", up=False)
    wait_until(
        lambda: (
            dict(switch.interface("to", "statistics")[1]).get("ovs_tx_mtu_exceeded_drops") == 150
        ),
        "the drops are not counted",
    )


def test_what_a_guest_is_offered_and_said_to_have(switch: Switch) -> None:
    add_guest_ports(switch, "to")
    assert dict(switch.interface("to", "status")[1])["status"] == "disconnected"
    with Guest(switch.rundir / "to", pairs=2) as receiver:
        offered = receiver.ask(1)
        assert offered & NOT_CARRIED == 0, "offloads that the pipeline does not carry"
        assert offered & MERGEABLE and offered & PACKED and offered & DIRTY_LOG
        receiver.start(enabled=(0,))
        wait_for_link(switch, "to")
        wait_until(
            lambda: dict(switch.interface("to", "status")[1])["status"] == "connected",
            "the status does not change",
        )
        status = dict(switch.interface("to", "status")[1])
        assert status["mode"] == "server"
        assert status["socket"] == str(switch.rundir / "to")
        assert status["num_of_vrings"] == "4"
        assert status["vring_0_size"] == status["vring_3_size"] == "256"
        assert int(status["features"], 16) == F_MQ | F_PROTOCOL_FEATURES | F_VERSION_1


def test_iommu_and_postcopy_are_offered_where_they_are_asked_for(switch: Switch) -> None:
    add_guest_ports(switch, "plain")
    add_guest_ports(switch, "both", columns=("options:iommu=true", "options:postcopy=true"))
    for name, asked in (("plain", False), ("both", True)):
        with Guest(switch.rundir / name) as asking:
            assert bool(asking.ask(GET_FEATURES) & F_ACCESS_PLATFORM) is asked
            assert bool(asking.ask(GET_PROTOCOL_FEATURES) & PROTOCOL_F_PAGEFAULT) is asked


def test_options_that_are_refused(switch: Switch) -> None:
    bridge = add_guest_ports(switch, "to")
    path = switch.rundir / "x"
    for columns, expected in {
        ("type=dpdkvhostuserclient",): "vhost-server-path",
        ("type=dpdkvhostuser", "options:n_rxq_desc=512"): "the guest decides",
        ("type=dpdkvhostuser", "options:tx-retries-max=33"): "0 to 32",
        (
            "type=dpdkvhostuserclient",
            f"options:vhost-server-path={switch.rundir}/to",
        ): "that of port to",
        ("type=dpdkvhostuser", f"options:vhost-server-path={path}"): "no options:vhost-server-path",
    }.items():
        switch.vsctl("add-port", bridge, "bad", "--", "set", "Interface", "bad", *columns)
        assert expected in str(switch.interface("bad", "error"))
        switch.vsctl("del-port", bridge, "bad")


def test_a_killed_switch_listens_again(switch: Switch) -> None:
    add_guest_ports(switch, "to")
    switch.stop_switch(signal.SIGKILL)
    assert (switch.rundir / "to").exists()
    switch.start_switch()
    with guest(switch.rundir / "to"):
        wait_for_link(switch, "to")


def test_a_thousand_ports(switch: Switch) -> None:
    """More than DPDK has numbers for devices; the last one works as any other."""
    bridge = add_guest_ports(switch, "from", "to")
    words: list[str] = []
    for number in range(1022):
        name = f"v{number}"
        path = f"options:vhost-server-path={switch.rundir}/nobody{number}"
        words += ["--", "add-port", bridge, name, "--", "set", "Interface", name]
        words += ["type=dpdkvhostuserclient", path]
    switch.vsctl(*words)
    assert int(switch.interface("v1021", "ofport")) > 0
    with guest(switch.rundir / "from") as sender, guest(switch.rundir / "to") as receiver:
        wait_for_link(switch, "from", "to")
        for number in range(FRAMES):
            sender.transmit(0, numbered(number))
        assert len(collect(receiver, FRAMES)[0]) == FRAMES, switch.call("drops")


# --- front-ends that are broken or hostile ---


def _vring(evil: Guest, number: int) -> Vring:
    return evil.vrings[number]


def _descriptors_beyond_memory(evil: Guest) -> None:
    for number in (0, 1):
        for slot in range(64):
            _vring(evil, number).describe(slot, addr=1 << 40 | slot << 12, flags=2 * (1 - number))
            _vring(evil, number).offer(slot)


def _descriptors_across_the_end(evil: Guest) -> None:
    for number in (0, 1):
        end = len(evil.memory) - 8
        _vring(evil, number).describe(0, addr=end, length=65535, flags=2 * (1 - number))
        _vring(evil, number).offer(0)


def _descriptors_in_a_circle(evil: Guest) -> None:
    for slot in range(evil.size):
        _vring(evil, 1).describe(slot, length=64, flags=DESC_NEXT, next=(slot + 1) % evil.size)
    _vring(evil, 1).offer(0)


def _descriptors_that_do_not_exist(evil: Guest) -> None:
    _vring(evil, 1).describe(0, length=64, flags=DESC_NEXT, next=0xFFFF)
    _vring(evil, 1).offer(0)
    _vring(evil, 1).offer(0xFFFF)


def _an_indirect_table_of_any_size(evil: Guest) -> None:
    for length in (0, 1, 15, 16 * evil.size + 16, 0xFFFF_FFF0):
        _vring(evil, 1).describe(0, length=length, flags=DESC_INDIRECT)
        _vring(evil, 1).offer(0)


def _lengths_of_nothing_and_of_everything(evil: Guest) -> None:
    for length in (0, 1, 11, 12, 13, 0xFFFF_FFFF):
        _vring(evil, 1).describe(0, length=length)
        _vring(evil, 1).offer(0)


def _a_frame_of_more_octets_than_the_switch_has(evil: Guest) -> None:
    for slot in range(evil.size):
        following = DESC_NEXT if slot + 1 < evil.size else 0
        _vring(evil, 1).describe(
            slot, addr=0, length=len(evil.memory), flags=following, next=slot + 1
        )
    for _ in range(100):
        _vring(evil, 1).offer(0)


def _an_index_far_ahead(evil: Guest) -> None:
    for index in (0x8000, 0xFFFF, 1, 0x7FFF):
        _vring(evil, 0).claim(index)
        _vring(evil, 1).claim(index)


def _rings_of_noise(evil: Guest) -> None:
    noise = random.Random(SEED)
    for _ in range(20):
        for number in (0, 1):
            vring = _vring(evil, number)
            evil.memory[vring.desc : vring.buffers] = noise.randbytes(vring.buffers - vring.desc)
        time.sleep(0.01)


def _messages_of_noise(evil: Guest) -> None:
    noise = random.Random(SEED)
    for _ in range(50):
        payload = noise.randbytes(noise.randrange(0, 300))
        try:
            evil.send(noise.randrange(0, 45), payload, flags=noise.choice((1, 9, 0xFFFF_FFFF)))
        except OSError:
            evil.socket.close()  # the switch had enough
            return


def _a_message_longer_than_any(evil: Guest) -> None:
    evil.socket.sendall(struct.pack("=III", 5, 1, 0xFFFF_FFFF) + bytes(4096))


def _rings_outside_memory(evil: Guest) -> None:
    for at in (0, USER_BASE - PAGE, USER_BASE + len(evil.memory), (1 << 64) - PAGE):
        evil.send(9, struct.pack("=IIQQQQ", 1, 0, at, at, at, 0))


def _a_vring_that_cannot_be(evil: Guest) -> None:
    for size in (0, 3, 65535, 1 << 31):
        evil.send(8, struct.pack("=II", 1, size))
    evil.send(18, struct.pack("=II", 0xFFFF_FFFF, 1))


def _memory_taken_away(evil: Guest) -> None:
    evil.send(5, struct.pack("=II", 0, 0))
    evil.send(5, struct.pack("=II", 0xFFFF_FFFF, 0))


def _memory_that_shrinks(evil: Guest) -> None:
    os.ftruncate(evil.file, 0)


def _pairs_that_flicker(evil: Guest) -> None:
    for turn in range(500):
        evil.send(18, struct.pack("=II", turn % 2, turn // 2 % 2))


ATTACKS = [
    _descriptors_beyond_memory,
    _descriptors_across_the_end,
    _descriptors_in_a_circle,
    _descriptors_that_do_not_exist,
    _an_indirect_table_of_any_size,
    _lengths_of_nothing_and_of_everything,
    _a_frame_of_more_octets_than_the_switch_has,
    _an_index_far_ahead,
    _rings_of_noise,
    _messages_of_noise,
    _a_message_longer_than_any,
    _rings_outside_memory,
    _a_vring_that_cannot_be,
    _memory_taken_away,
    _memory_that_shrinks,
    _pairs_that_flicker,
]


def test_a_hostile_guest_harms_nobody_else(two_workers: Switch) -> None:
    """Each in turn, while the hostile guest gets frames, too, and is cut off in the end."""
    switch, rundir = two_workers, two_workers.rundir
    bridge = add_guest_ports(switch, "from", "to", "evil")
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2,output:3")
    switch.ofctl("add-flow", bridge, "in_port=3,actions=output:3")
    with guest(rundir / "from") as sender, guest(rundir / "to") as receiver:
        for attack in ATTACKS:
            with contextlib.suppress(OSError), guest(rundir / "evil") as evil:
                wait_for_link(switch, "from", "to", "evil")
                with contextlib.suppress(OSError):  # it may be cut off at any message
                    attack(evil)
                for number in range(FRAMES):
                    sender.transmit(0, numbered(number))
                frames = collect(receiver, FRAMES)[0]
                assert frames == list(map(numbered, range(FRAMES))), attack.__name__
            wait_for_link(switch, "evil", up=False)
    assert switch.process is not None and switch.process.exit_code is None


def test_a_guest_may_break_off_at_any_message(switch: Switch) -> None:
    """The handshake ends after each number of messages; then one that does not."""
    rundir = switch.rundir
    add_guest_ports(switch, "from", "to")
    for messages in range(1, 20):
        with Breaking(rundir / "to", messages) as short, contextlib.suppress(BrokenOff):
            short.start()
    with guest(rundir / "from") as sender, guest(rundir / "to") as receiver:
        wait_for_link(switch, "from", "to")
        sender.transmit(0, numbered(7))
        assert collect(receiver, 1)[0] == [numbered(7)]


class BrokenOff(Exception):
    """The number of messages was reached."""


class Breaking(Guest):
    """A guest that ends after so many messages."""

    def __init__(self, path: Path, messages: int) -> None:
        super().__init__(path)
        self._left = messages

    def send(
        self, request: int, payload: bytes = b"", *, files: tuple[int, ...] = (), flags: int = 1
    ) -> None:
        """One message, if it is not one too many."""
        if self._left == 0:
            raise BrokenOff
        self._left -= 1
        super().send(request, payload, files=files, flags=flags)
