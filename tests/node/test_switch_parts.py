# SPDX-License-Identifier: Apache-2.0
"""The small parts of the drivers: message cutting, cycle figures, pairs of the kernel's bridge."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.switches.base import LinkSpec, PortKind, PortSpec, SwitchError, vdev_devargs
from headrace.switches.flat import FlatState, flatten
from headrace.switches.jsonrpc import MessageSplitter
from headrace.switches.linux_bridge import pairs_of
from headrace.switches.ovs_dpdk import workers_of
from headrace.switches.rules import FieldMatch, Output, Rule
from headrace.switches.softirq import softirq_cycles

objects = st.dictionaries(
    st.text(max_size=5),
    st.recursive(st.text(max_size=9) | st.integers(), lambda inner: st.lists(inner, max_size=3)),
    max_size=4,
)


@given(st.lists(objects, max_size=5), st.lists(st.integers(0, 400)), st.booleans())
def test_messages_are_cut_wherever_the_stream_is(
    messages: list[dict[str, Any]], cuts: list[int], ascii_only: bool
) -> None:
    stream = "".join(json.dumps(m, ensure_ascii=ascii_only) for m in messages)
    try:
        data = stream.encode()
    except UnicodeEncodeError:  # lone surrogates cannot be sent
        return
    splitter, found = MessageSplitter(), []
    edges = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    for begin, end in pairwise(edges):
        found += splitter.feed(data[begin:end])
    assert [json.loads(message) for message in found] == messages


PMD_STATS = """pmd thread numa_id 0 core_id 1:
  packets received: 1000
  packet recirculations: 0
  avg. datapath passes per packet: 1.00
  emc hits: 990
  idle cycles: 600 (60.00%)
  processing cycles: 400 (40.00%)
  avg cycles per packet: 1.00 (1000/1000)
pmd thread numa_id 0 core_id 3:
  packets received: 0
  idle cycles: 7 (100.00%)
  processing cycles: 0 (0.00%)
main thread:
  packets received: 55
  idle cycles: 0 (0.00%)
  processing cycles: 66 (0.00%)
"""


PMD_PERF = """
Time: 21:33:24.304
Measurement duration: 1.117 s

pmd thread numa_id 0 core_id 1:

  Iterations:              4672447  (0.23 us/it)
  - Used TSC cycles:    2840764888  ( 97.8 % of total cycles)
  - idle iterations:       4122371  ( 79.6 % of used cycles)
  - busy iterations:        550076  ( 20.4 % of used cycles)
  Rx packets:              2674476  (2394 Kpps, 217 cycles/pkt)
  Tx packets:              2035412  (1822 Kpps)
  Tx batches:               505354  (4.03 pkts/batch)

Time: 21:33:24.304
Measurement duration: 1.117 s

pmd thread numa_id 0 core_id 3:

  Iterations:                   12  (0.23 us/it)
  - busy iterations:             0  (  0.0 % of used cycles)
  Tx batches:                    0
"""


def test_pmd_stats() -> None:
    first, second = workers_of(PMD_STATS, PMD_PERF)
    assert (first.core, first.busy_cycles, first.idle_cycles, first.packets) == (1, 400, 600, 1000)
    assert (first.rounds, first.busy_rounds, first.bursts) == (4672447, 550076, 505354)
    assert (second.rounds, second.busy_rounds, second.bursts) == (12, 0, 0)
    assert workers_of(PMD_STATS, "")[0].rounds is None
    assert (second.core, second.busy_cycles, second.idle_cycles, second.packets) == (3, 0, 7, 0)


def test_softirq_cycles() -> None:
    text = "cpu  9 9 9 9 9 9 9 9 9 9\n"
    text += "cpu0 1 2 3 4 5 6 7 8 90 90\ncpu1 0 0 0 100 0 0 50 0 0 0\nintr 5\n"
    (worker,) = softirq_cycles(text, [1], 2e9)
    assert worker.core == 1
    assert worker.busy_cycles == 50 * 20_000_000 and worker.idle_cycles == 100 * 20_000_000
    both = softirq_cycles(text, [0, 1], 2e9)
    assert both[0].busy_cycles == 7 * 20_000_000  # softirq is the seventh figure
    assert both[0].idle_cycles == (1 + 2 + 3 + 4 + 5 + 6 + 8) * 20_000_000


def plain(lsi: str, source: str, target: str) -> Rule:
    return Rule(lsi=lsi, label="r", priority=1, in_port=source, actions=(Output(port=target),))


def state(*rules: Rule) -> list[Rule]:
    ports = {name: PortSpec(name=name, kind=PortKind.VETH) for name in ("p0", "p1", "v")}
    link = LinkSpec(first="0", first_port="la", second="1", second_port="lb")
    held = {rule.identity: rule for rule in rules}
    return flatten(FlatState(ports=ports, links=[link], rules=held))


def test_pairs_of_a_bridge() -> None:
    there, back = plain("0", "p0", "p1"), plain("0", "p1", "p0")
    assert pairs_of(state(there, back)) == [("p0", "p1")]
    assert pairs_of(state(there)) == []  # a wire goes both ways
    over = [plain("0", "p0", "la"), plain("1", "lb", "v")]
    home = [plain("1", "v", "lb"), plain("0", "la", "p0")]
    assert pairs_of(state(*over, *home)) == [("p0", "v")]
    assert pairs_of(state(*over, home[0])) == []
    matching = back.model_copy(update={"match": {"eth_type": FieldMatch(value=1, mask=1)}})
    assert pairs_of(state(there, matching)) == []
    assert pairs_of(state(plain("0", "p0", "la"), plain("0", "la", "la"))) == []  # a loop ends


def test_devargs_of_the_peer() -> None:
    memif = PortSpec(name="p", kind=PortKind.MEMIF, options={"socket": "/s", "role": "server"})
    assert vdev_devargs(memif) == "net_memif{n},role=client,socket=/s,id=0,socket-abstract=no"
    vhost = PortSpec(name="p", kind=PortKind.VHOST_USER, options={"path": "/s"})
    assert vdev_devargs(vhost).startswith("net_virtio_user{n},path=/s,server=1,")
    with pytest.raises(SwitchError, match="has no DPDK peer"):
        vdev_devargs(PortSpec(name="p", kind=PortKind.TAP))
