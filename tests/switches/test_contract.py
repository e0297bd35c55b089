# SPDX-License-Identifier: Apache-2.0
"""What every driver owes (docs/switches.md), tried on each switch that this machine has.

All that a driver declares is tried with packets, and what it does not declare must be refused. The
tests of a switch share one that runs; each leaves it without rules.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from os_ken.ofproto.ofproto_v1_3 import OFPT_PACKET_IN

from headrace.machine.processes import Supervisor
from headrace.switches.base import LinkSpec, QueueSpec, SwitchError
from headrace.switches.carrying import lacks
from headrace.switches.fields import ETH_IPV4, FIELDS, PROTO_UDP, VLAN_PRESENT
from headrace.switches.flat import FlatDriver
from headrace.switches.openflow import OpenFlowSession
from headrace.switches.rules import (
    CONTROLLER,
    Bucket,
    FieldMatch,
    Normal,
    Output,
    PopVlan,
    PushVlan,
    Rule,
    Select,
    SetField,
    SetQueue,
)
from tests.support.janitor import removed_at_the_latest
from tests.switches.beds import BEDS, Bed, eventually
from tests.switches.cases import CASES, SETS, exact
from tests.switches.packets import frame

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
]

A, B, C, D = range(4)
UDP = exact({"eth_type": ETH_IPV4, "ip_proto": PROTO_UDP})


_ALWAYS = ("headrace", "linux-bridge", "openflow:ovs", "vpp:fake", "sr-iov:fake")
"""The others share what `make test` has tried with these."""

_PARAMS = [pytest.param(b, marks=[] if b in _ALWAYS else pytest.mark.full) for b in BEDS]


@pytest.fixture(scope="module", params=_PARAMS)
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    rundir = Path(tempfile.mkdtemp(prefix="hr-"))
    with removed_at_the_latest("node", rundir), BEDS[request.param](rundir) as made:
        yield made
    left = [name for name in os.listdir("/sys/class/net") if name.startswith(made.settings.prefix)]
    assert left == []
    assert Supervisor(rundir).all() == {}
    shutil.rmtree(rundir, ignore_errors=True)


def several(count: int = 20) -> list[bytes]:
    return [frame({}, b"frame %3d" % number) for number in range(count)]


# Forwarding.


def test_what_no_rule_matches_is_dropped(bed: Bed) -> None:
    with bed.rules(bed.rule(C, D)):
        bed.send(A, *several())
        bed.send(C, frame({}))
        assert bed.receive(D, 1) == [frame({})]
        assert all(bed.silent(port) for port in (B, C, D))


def test_a_wire_in_both_directions(bed: Bed) -> None:
    with bed.rules(bed.rule(A, B), bed.rule(B, A)):
        bed.send(A, *several(50))
        assert bed.receive(B, 50) == several(50)
        bed.send(B, *several(50))
        assert bed.receive(A, 50) == several(50)
        assert bed.silent(C) and bed.silent(D)


def test_one_direction_alone(bed: Bed) -> None:
    with bed.rules(bed.rule(A, B)):
        bed.send(B, *several())
        bed.send(A, frame({}))
        assert bed.receive(B, 1) == [frame({})]
        assert bed.silent(A)


def test_frames_of_all_sizes_pass_unchanged(bed: Bed) -> None:
    sizes = [frame({}, bytes(size)) for size in (0, 100, 700, 1472)]
    with bed.rules(bed.rule(A, B)):
        bed.send(A, *sizes)
        assert bed.receive(B, len(sizes)) == sizes


def test_a_rule_without_actions_drops(bed: Bed) -> None:
    if "eth_src" not in bed.driver.capabilities.matches:
        pytest.skip("matches nothing but the port")
    case = CASES["eth_src"]
    with bed.rules(bed.rule(A, match=case.match, priority=20), bed.rule(A, B, priority=10)):
        bed.send(A, case.hit, case.miss)
        assert bed.receive(B, 1) == [case.miss]
        assert bed.silent(B)


# Matches.


@pytest.mark.parametrize("name", FIELDS)
def test_match(bed: Bed, name: str) -> None:
    case = CASES[name]
    rule = bed.rule(A, B, match=case.match)
    if not set(case.match) <= set(bed.driver.capabilities.matches):
        refused(bed, rule, f"cannot match ({'|'.join(case.match)})")
        return
    with bed.rules(rule):
        bed.send(A, case.miss, case.hit)
        assert bed.receive(B, 1) == [case.hit]
        assert bed.silent(B)


@pytest.mark.parametrize("name", FIELDS)
def test_match_of_single_bits(bed: Bed, name: str) -> None:
    if name == "vlan_vid":
        wanted = FieldMatch(value=VLAN_PRESENT, mask=VLAN_PRESENT)
        match, hit, miss = {name: wanted}, CASES[name].hit, frame({})
    elif name in ("eth_type", "ip_proto", "icmpv6_type"):
        pytest.skip("other fields depend on it; OpenFlow has no mask for it")
    else:
        match, hit, miss = CASES[name].masked()
    rule = bed.rule(A, B, match=match)
    capabilities = bed.driver.capabilities
    if name not in capabilities.masks:
        refused(bed, rule, f"cannot match (single bits of )?({'|'.join(match)})")
        return
    with bed.rules(rule):
        bed.send(A, miss, hit)
        assert bed.receive(B, 1) == [hit]
        assert bed.silent(B)


def test_no_tag_is_a_match(bed: Bed) -> None:
    if "vlan_vid" not in bed.driver.capabilities.matches:
        pytest.skip("does not match vlan_vid")
    with bed.rules(bed.rule(A, B, match=exact({"vlan_vid": 0}))):
        bed.send(A, CASES["vlan_vid"].hit, frame({}))
        assert bed.receive(B, 1) == [frame({})]
        assert bed.silent(B)


def test_the_higher_priority_wins(bed: Bed) -> None:
    capabilities = bed.driver.capabilities
    if "eth_dst" not in capabilities.matches:
        pytest.skip("matches nothing but the port")
    case = CASES["eth_dst"]
    wide, narrow = bed.rule(A, B, priority=5), bed.rule(A, C, match=case.match, priority=9)
    for rules in ((wide, narrow), (narrow, wide)):
        with bed.rules(*rules):
            bed.send(A, case.hit, case.miss)
            assert bed.receive(C, 1) == [case.hit]
            assert bed.receive(B, 1) == [case.miss]
            assert bed.silent(B) and bed.silent(C)


# Actions.


def test_copies_to_several_ports(bed: Bed) -> None:
    rule = bed.rule(A, B, C, D)
    if "copy" not in bed.driver.capabilities.actions:
        refused(bed, rule, "several ports")
        return
    with bed.rules(rule):
        bed.send(A, *several())
        assert [bed.receive(port, 20) for port in (B, C, D)] == [several()] * 3
        assert bed.silent(A)


def test_push_vlan(bed: Bed) -> None:
    rule = bed.rule(A, PushVlan(vlan_id=77), B)
    if "push_vlan" not in bed.driver.capabilities.actions:
        refused(bed, rule, "push VLAN")
        return
    with bed.rules(rule):
        bed.send(A, *several())
        assert bed.receive(B, 20) == [frame({}, b"frame %3d" % n, outer=77) for n in range(20)]


def test_pop_vlan(bed: Bed) -> None:
    tagged = exact({"vlan_vid": VLAN_PRESENT | 5})
    rule = bed.rule(A, PopVlan(), B, match=tagged)
    if "pop_vlan" not in bed.driver.capabilities.actions:
        refused(bed, rule, "VLAN")
        return
    with bed.rules(rule):
        bed.send(A, frame({"vlan_vid": VLAN_PRESENT | 6}), frame({}), frame({}, outer=5))
        assert bed.receive(B, 1) == [frame({})]
        assert bed.silent(B)


def test_one_tag_becomes_another_and_a_copy_has_none(bed: Bed) -> None:
    capabilities = bed.driver.capabilities
    if not {"push_vlan", "pop_vlan", "copy"} <= set(capabilities.actions):
        pytest.skip("does not push and pop tags")
    tagged = exact({"vlan_vid": VLAN_PRESENT | 5})
    with bed.rules(bed.rule(A, PopVlan(), B, PushVlan(vlan_id=9), C, match=tagged)):
        bed.send(A, frame({}, outer=5))
        assert bed.receive(B, 1) == [frame({})]
        assert bed.receive(C, 1) == [frame({}, outer=9)]


@pytest.mark.parametrize("name", SETS)
def test_set_field(bed: Bed, name: str) -> None:
    base, value = SETS[name]
    rule = bed.rule(A, SetField(field=name, value=value), B, match=exact(base))
    capabilities = bed.driver.capabilities
    if name not in capabilities.sets or "set_field" not in capabilities.actions:
        refused(bed, rule, f"{name}|change headers|cannot match ({'|'.join(base)})")
        return
    with bed.rules(rule):
        bed.send(A, frame(base))
        assert bed.receive(B, 1) == [frame({**base, name: value})]
        assert bed.silent(B)


def test_select_keeps_each_flow_at_one_port(bed: Bed) -> None:
    buckets = [Bucket(weight=1, actions=(Output(port=bed.ports[p].name),)) for p in (B, C)]
    rule = bed.rule(A, Select(buckets=tuple(buckets)))
    if "select" not in bed.driver.capabilities.actions:
        refused(bed, rule, "distribute")
        return
    flows = [frame({"ipv4_src": 0x0A000100 + n, "udp_src": 3000 + n}) for n in range(64)]
    with bed.rules(rule):
        for _ in range(2):
            bed.send(A, *flows)
        found = {port: bed.receive(port, 128, 1.0) for port in (B, C)}
    assert sum(map(len, found.values())) == 128
    assert set(found[B]).isdisjoint(found[C])
    assert found[B] and found[C]


def test_normal_learns_addresses(bed: Bed) -> None:
    rules = [bed.rule(port, Normal()) for port in (A, B, C)]
    if "normal" not in bed.driver.capabilities.actions:
        refused(bed, rules[0], "learn")
        return
    there = frame({"eth_src": 0x0200000000AA, "eth_dst": 0x0200000000BB})
    back = frame({"eth_src": 0x0200000000BB, "eth_dst": 0x0200000000AA})
    with bed.rules(*rules):
        bed.send(A, there)  # flooded: nobody knows the address
        assert bed.receive(B, 1) == bed.receive(C, 1) == [there]
        bed.send(B, back)
        assert bed.receive(A, 1) == [back]
        for _ in range(50):  # a cache may still flood, until the switch has looked through it
            bed.settle()
            bed.send(A, there)
            assert bed.receive(B, 1) == [there]
            if bed.silent(C):
                return
        pytest.fail("a known address is flooded")


def test_a_rule_goes_by_its_timeout(bed: Bed) -> None:
    rule = bed.rule(A, B, hard_timeout=3)  # a busy machine may take a second to send
    if not bed.driver.capabilities.timeouts:
        refused(bed, rule, "timeouts")
        return
    with bed.rules(rule):
        bed.send(A, frame({}))
        assert bed.receive(B, 1) == [frame({})]

        def gone() -> bool:
            rows = bed.run(bed.driver.rule_statistics(bed.lsi))
            return rule.cookie not in {row.cookie for row in rows}

        eventually(gone, "the rule is still there")
        bed.send(A, frame({}))
        assert bed.silent(B)


def test_a_queue_holds_what_asks_for_it_to_its_rate(bed: Bed) -> None:
    queue = QueueSpec(port=bed.ports[B].name, number=17, max_rate=400_000)
    slow = bed.rule(A, SetQueue(queue=17), B)
    if "set_queue" not in bed.driver.capabilities.actions:
        refused(bed, slow, "queues")
        return
    frames = [frame({}, b"%3d" % n + bytes(958)) for n in range(40)]

    async def change(*queues: QueueSpec) -> None:
        for _ in range(2):
            for one in queues:
                await bed.driver.add_queue(bed.lsi, one)

    async def remove(*queues: QueueSpec) -> None:
        for _ in range(2):
            for one in queues:
                await bed.driver.remove_queue(bed.lsi, one)

    other = queue.model_copy(update={"number": 18, "max_rate": 900_000_000})
    bed.run(change(queue, other))
    try:
        with bed.rules(slow, bed.rule(C, B)):
            began = time.monotonic()
            bed.send(A, *frames)
            bed.send(C, frame({}))  # asks for no queue, and waits for none
            assert sorted(bed.receive(B, 41)) == sorted([*frames, frame({})])
            # 40 frames of 1000 octets are 0.8 s at 400 kbit/s; a burst goes at once.
            assert time.monotonic() - began > 0.3
    finally:
        bed.run(remove(queue, other))
    with bed.rules(slow):
        began = time.monotonic()
        bed.send(A, *frames)
        assert bed.receive(B, 40) == frames


def test_a_controller_gets_what_rules_send_to_it(bed: Bed) -> None:
    rule = bed.rule(A, Output(port=CONTROLLER), B)
    if "controller" not in bed.driver.capabilities.actions:
        refused(bed, rule, "controller")
        return
    found: asyncio.Queue[bytes] = asyncio.Queue()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        session = await OpenFlowSession.over(reader, writer, "the switch")
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                message = await session._receive()
                if message.msg_type == OFPT_PACKET_IN:
                    found.put_nowait(bytes(message.data))
        await session.close()

    async def begin() -> asyncio.Server:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        await bed.driver.set_controller(bed.lsi, f"tcp:127.0.0.1:{port}")
        return server

    async def received() -> list[bytes]:
        """Sends until the switch has connected; then all that the controller gets of a burst."""
        for _ in range(100):
            bed.send(A, frame({}, b"first"))
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(found.get(), 0.1)
                break
        await asyncio.sleep(0.3)
        while not found.empty():
            found.get_nowait()
        bed.send(A, *several())
        return [await asyncio.wait_for(found.get(), 10) for _ in range(20)]

    server = bed.run(begin())
    try:
        with bed.rules(rule):
            assert bed.run(received()) == several()
    finally:
        server.close()
        bed.run(bed.driver.set_controller(bed.lsi, None))
        bed.run(bed.driver.set_controller(bed.lsi, None))


# LSIs and links.


def test_a_link_joins_two_lsis(bed: Bed) -> None:
    other = f"{bed.settings.prefix}-2"
    link = LinkSpec(first=bed.lsi, first_port="g2l0a", second=other, second_port="g2l0b")

    def behind(source: str, target: str, *before: PushVlan) -> Rule:
        return Rule(
            lsi=other,
            label="contract/behind",
            priority=1,
            in_port=source,
            actions=(*before, Output(port=target)),
        )

    async def join() -> None:
        await bed.driver.create_lsi(other)
        await bed.driver.connect_lsis(link)
        await bed.driver.connect_lsis(back)

    async def part() -> None:
        await bed.driver.disconnect_lsis(back)
        await bed.driver.disconnect_lsis(link)
        await bed.driver.delete_lsi(other)
        await bed.driver.delete_lsi(other)

    back = link.model_copy(update={"first_port": "g2l1a", "second_port": "g2l1b"})
    bed.run(join())
    bed.run(join())
    into = bed.rule(A, Output(port="g2l0a"))
    out = Rule(
        lsi=bed.lsi,
        label="contract/out",
        priority=1,
        in_port="g2l1a",
        actions=(Output(port=bed.ports[B].name),),
    )
    try:
        with bed.rules(behind("g2l0b", "g2l1b"), out, into):
            bed.send(A, *several())
            assert bed.receive(B, 20) == several()
            assert bed.silent(C)
        bed.send(A, *several())
        assert bed.silent(B)
    finally:
        bed.run(part())


# Counters.


def test_ports_count_every_frame(bed: Bed) -> None:
    assert "port" in bed.driver.capabilities.counters
    with bed.rules(bed.rule(A, B)):
        before = [bed.counters(port) for port in (A, B)]
        bed.send(A, *several(50))
        assert bed.receive(B, 50) == several(50)

        def moved() -> bool:
            after = [bed.counters(port) for port in (A, B)]
            received = after[0]["rx_packets"] - before[0]["rx_packets"]
            sent = after[1]["tx_packets"] - before[1]["tx_packets"]
            octets = after[0]["rx_bytes"] - before[0]["rx_bytes"]
            return (received, sent, octets) == (50, 50, 50 * 60)

        eventually(moved, f"{before} {[bed.counters(port) for port in (A, B)]}")


def test_rules_count_what_they_match(bed: Bed) -> None:
    capabilities = bed.driver.capabilities
    if "rule" not in capabilities.counters:
        pytest.skip("does not count by rule")
    case = CASES["ipv4_dst"] if "ipv4_dst" in capabilities.matches else None
    rules = [bed.rule(C, D)]
    if case is not None:
        rules.append(bed.rule(A, B, match=case.match))
    with bed.rules(*rules):
        bed.send(C, *several(30))
        if case is not None:
            bed.send(A, *[case.miss] * 5, *[case.hit] * 20)
            assert len(bed.receive(B, 20)) == 20
        assert len(bed.receive(D, 30)) == 30

        def counted() -> dict[int, int]:
            rows = bed.run(bed.driver.rule_statistics(bed.lsi))
            return {row.cookie: row.packets for row in rows}

        wanted = dict(zip((rule.cookie for rule in rules), (30, 20), strict=False))
        eventually(lambda: counted() == wanted, f"{counted()} is not {wanted}")


def test_many_rules_go_at_once_and_no_other(bed: Bed) -> None:
    capabilities = bed.driver.capabilities
    if "rule" not in capabilities.counters:
        pytest.skip("does not count by rule: what is there cannot be asked for")
    if "ipv4_dst" not in capabilities.matches:
        pytest.skip("matches no addresses, by which the many rules differ")
    eth = CASES["ipv4_dst"].match["eth_type"]

    def to(host: int) -> Rule:
        address = FieldMatch(value=0xC0000200 + host, mask=0xFFFFFFFF)
        return bed.rule(A, B, match={"eth_type": eth, "ipv4_dst": address})

    def there() -> set[int]:
        return {row.cookie for row in bed.run(bed.driver.rule_statistics(bed.lsi))}

    stays, many = bed.rule(C, D), [to(host) for host in range(300)]
    with bed.rules(stays):
        with bed.rules(*many):
            assert there() == {rule.cookie for rule in (stays, *many)}
        assert there() == {stays.cookie}


# Steps that are repeated, and restarts of the node.


def test_every_step_can_be_repeated(bed: Bed) -> None:
    rule = bed.rule(A, B)

    async def twice() -> None:
        for _ in range(2):
            await bed.driver.create_lsi(bed.lsi)
            for port in bed.ports:
                await bed.driver.add_port(bed.lsi, port)
            await bed.driver.install_rules(bed.lsi, [rule])

    bed.run(twice())
    bed.settle()
    bed.send(A, *several())
    assert bed.receive(B, 20) == several()

    async def undo() -> None:
        for _ in range(2):
            await bed.driver.remove_rules(bed.lsi, [rule])
        await bed.driver.delete_lsi(f"{bed.settings.prefix}-9")

    bed.run(undo())
    bed.settle()
    bed.send(A, *several())
    assert bed.silent(B)


def test_a_rule_is_replaced_in_place(bed: Bed) -> None:
    with bed.rules(bed.rule(A, B)):
        bed.install(bed.rule(A, C))
        bed.send(A, *several())
        assert bed.receive(C, 20) == several()
        assert bed.silent(B)


def test_a_rule_on_a_port_that_is_not_there_is_refused(bed: Bed) -> None:
    rule = bed.rule(A, Output(port="nosuchport"))
    with pytest.raises(SwitchError, match=r"contract/0.*nosuchport"):
        bed.run(bed.driver.install_rules(bed.lsi, [rule]))
    bed.run(bed.driver.remove_rules(bed.lsi, [rule]))


def test_a_restart_of_the_node_loses_no_rule(bed: Bed) -> None:
    with bed.rules(bed.rule(A, B), bed.rule(B, A)):
        assert bed.again()
        bed.send(A, *several())
        assert bed.receive(B, 20) == several()
        bed.install(bed.rule(A, C))
        bed.send(A, *several())
        assert bed.receive(C, 20) == several()


def test_what_is_missing_is_told(bed: Bed) -> None:
    names = [port.name for port in bed.ports]
    assert bed.run(bed.driver.missing([*names, "nosuchport"])) == {"nosuchport"}
    links = bed.run(bed.driver.links())
    assert all(links[name] for name in names)


def test_a_port_goes_and_comes_back(bed: Bed) -> None:
    port = bed.ports[D]

    async def renew() -> None:
        await bed.driver.remove_port(bed.lsi, port)
        await bed.driver.remove_port(bed.lsi, port)
        assert await bed.driver.missing([port.name]) == {port.name}
        await bed.driver.add_port(bed.lsi, port)
        if port.kind == "veth":
            await bed.driver.wait_for_links([port])

    bed.wires[D].__exit__()
    bed.run(renew())
    bed.open()
    with bed.rules(bed.rule(A, D)):
        bed.send(A, *several())
        assert bed.receive(D, 20) == several()


def test_it_says_what_it_is_and_what_it_costs(bed: Bed) -> None:
    name = bed.name.partition(":")[0]
    assert bed.run(bed.driver.version()).startswith(name)
    cycles = bed.run(bed.driver.cycles())
    assert cycles.switch == name and cycles.tsc_hz > 1e8


def refused(bed: Bed, rule: Rule, words: str) -> None:
    """What a driver does not declare: planning refuses it, and who would do something else, too."""
    why = lacks(bed.driver.capabilities, rule)
    assert why is not None and re.search(words, why)
    if isinstance(bed.driver, FlatDriver):
        with pytest.raises(SwitchError, match=words):
            bed.install(rule)
