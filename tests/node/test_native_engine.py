# SPDX-License-Identifier: Apache-2.0
"""The engine for functions of the kernel, with real devices (root)."""

import asyncio
import os
from collections.abc import Iterator

import pytest
from pyroute2 import IPRoute, NetNS, netns

from headrace.engines.base import EngineError, VnfPort, VnfSpec
from headrace.engines.native import NativeEngine
from headrace.switches.base import PortKind, PortSpec
from headrace.switches.veth import FAR_END, device_name

pytestmark = pytest.mark.root

_PREFIX = f"n{os.getpid() % 100000}"
_NAMESPACE = f"headrace-test-native-{os.getpid()}"
_FAR = device_name(_PREFIX, FAR_END, "p")


@pytest.fixture
def spec() -> Iterator[VnfSpec]:
    """A VNF of one port; its namespace is there, and nothing in it."""
    netns.create(_NAMESPACE)
    port = VnfPort(id="0", switch_port=PortSpec(name="p", kind=PortKind.VETH))
    yield VnfSpec(
        name=_NAMESPACE,
        graph="g",
        vnf="v",
        template="bridge",
        engine="native",
        function="bridge",
        ports=(port,),
    )
    netns.remove(_NAMESPACE)


def test_goes_on_where_a_killed_node_had_moved_a_device_in(spec: VnfSpec) -> None:
    with NetNS(_NAMESPACE) as inside:
        inside.link("add", ifname=_FAR, kind="veth", peer={"ifname": "near"})
        inside.link("set", ifname="near", state="up")
    asyncio.run(NativeEngine(_PREFIX).ensure(spec))
    with NetNS(_NAMESPACE) as inside:
        assert inside.link_lookup(ifname="eth0")
        assert not inside.link_lookup(ifname=_FAR)


def test_a_device_that_is_gone_is_named(spec: VnfSpec) -> None:
    with IPRoute() as outside:
        assert not outside.link_lookup(ifname=_FAR)
    with pytest.raises(EngineError, match=f"VNF v: device {_FAR} is gone"):
        asyncio.run(NativeEngine(_PREFIX).ensure(spec))
