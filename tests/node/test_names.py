# SPDX-License-Identifier: Apache-2.0
"""Names of what the node makes: different things have different names, which fit their places."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.node.config import from_dict
from headrace.node.errors import ConfigError
from headrace.node.planning.nffg import parse
from headrace.node.planning.placement import vnf_name
from headrace.node.planning.plan import make_plan
from headrace.switches.veth import BRIDGE_END, FAR_END, NEAR_END, device_name
from tests.node import graphs
from tests.node.surroundings import surroundings

identifiers = st.text(st.characters(exclude_characters=":/"), min_size=1, max_size=64)
pairs = st.tuples(identifiers, identifiers)
ports = st.from_regex(r"[A-Za-z0-9_.\-]{1,15}", fullmatch=True)


@given(pairs, pairs)
@example(("a", "b-c"), ("a-b", "c"))
@example(("a", "b c"), ("a", "b_c"))
@example(("a", "\ud800"), ("a", "_"))
def test_vnfs_have_names_of_their_own(one: tuple[str, str], other: tuple[str, str]) -> None:
    names = [vnf_name("hr1234", *pair) for pair in (one, other)]
    assert (names[0] == names[1]) == (one == other)
    for name in names:
        assert name.isascii() and "/" not in name and name.startswith("hr1234-")
        assert len(name) <= 64  # a file `<name>.json.new` and a container's hostname fit


def test_two_graphs_whose_names_run_together_are_two_vnfs() -> None:
    (first,) = _plan("a", "b-c")
    (second,) = _plan("a-b", "c")
    assert first != second


def _plan(graph_id: str, vnf_id: str) -> list[str]:
    document = graphs.document([], [], [graphs.vnf(vnf_id, "pass")])
    graph, _ = parse(document)
    return [vnf.name for vnf in make_plan(graph, graph_id, 1, surroundings()).vnfs()]


devices = st.one_of(
    st.tuples(st.sampled_from([NEAR_END, FAR_END]), ports),
    st.tuples(st.just(BRIDGE_END), ports, ports),
)


@given(devices, devices)
@example((NEAR_END, "p0x"), (FAR_END, "p0"))
@example((BRIDGE_END, "ab", "c"), (BRIDGE_END, "a", "bc"))
def test_devices_of_the_kernel_have_names_of_their_own(
    one: tuple[str, ...], other: tuple[str, ...]
) -> None:
    names = [device_name("hr1234", *device) for device in (one, other)]
    assert (names[0] == names[1]) == (one == other)
    for name in names:
        assert len(name) <= 15 and name.startswith("hr1234")  # IFNAMSIZ, less its NUL


@pytest.mark.parametrize("name", ["g1p0", "g12l3a", "hr12ab-0"])
def test_a_physical_port_cannot_have_a_name_that_the_node_gives(name: str) -> None:
    with pytest.raises(ConfigError, match="the node gives such names"):
        from_dict({"ports": [{"name": name, "kind": "memif"}]})
