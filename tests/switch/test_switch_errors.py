# SPDX-License-Identifier: Apache-2.0
"""What the database asks for wrongly: each error names place and remedy, disturbs nobody, heals."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.frames import udp_frame
from tests.support.switch import Switch, unique_bridge
from tests.support.veth import RawPort, VethPair
from tests.support.vhost_ports import wait_for_link

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

NONE = ["set", []]
TUNSETIFF = 0x400454CA
IFF_TAP_NO_PI = 0x1002


@dataclass
class Bystander:
    """A bridge that forwards from one kernel port to another, whatever its neighbors do."""

    switch: Switch
    bridge: str
    one: RawPort
    two: RawPort

    def forwards(self) -> bool:
        """Whether 50 frames cross it, all of them and in order; what does not is told."""
        frames = [udp_frame(udp_src=number) for number in range(50)]
        for frame in frames:
            self.one.send(frame)
        received = self.two.receive(50, timeout_s=10)
        if received != frames:
            names = [frames.index(one) if one in frames else one.hex() for one in received]
            shown = json.dumps(self.switch.call("show")["lsis"])
            pytest.fail(f"of 50 frames {names} came; drops {self.switch.call('drops')}; {shown}")
        return True

    def add(self, name: str, *columns: str) -> str:
        """Adds a port to its bridge and returns the error column."""
        self.switch.vsctl(
            "--no-wait", "add-port", self.bridge, name, "--", "set", "Interface", name, *columns
        )
        return self.error(name)

    def set(self, name: str, *columns: str) -> str:
        """Sets columns of an interface and returns the error column."""
        self.switch.vsctl("--no-wait", "set", "Interface", name, *columns)
        return self.error(name)

    def error(self, name: str) -> str:
        """The error column, once the switch has seen all that was written; "" if it is empty."""
        self.wait()
        value = self.switch.interface(name, "error")
        return "" if value == NONE else str(value)

    def wait(self) -> None:
        """Returns when the switch has applied what the database holds."""
        self.switch.vsctl("set", "Bridge", self.bridge, "external_ids:waits=1")
        self.switch.vsctl("remove", "Bridge", self.bridge, "external_ids", "waits")

    def bridge_status(self, key: str) -> str:
        """A key of the bridge's status; "" without it."""
        self.wait()
        return self.switch.vsctl("--if-exists", "get", "Bridge", self.bridge, f"status:{key}")


@pytest.fixture
def bystander(switch: Switch) -> Iterator[Bystander]:
    bridge = unique_bridge()
    with ExitStack() as stack:
        pairs = [stack.enter_context(VethPair()) for _ in range(2)]
        switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "fail-mode=secure")
        for number, pair in enumerate(pairs, start=1):
            switch.vsctl(
                "add-port", bridge, pair.near, "--", "set", "Interface", pair.near, "type=system",
                f"ofport_request={number}",
            )  # fmt: skip
        switch.ofctl("add-flow", bridge, "in_port=1,actions=output:2")
        wait_for_link(switch, *(pair.near for pair in pairs))
        far = [RawPort(pair.far) for pair in pairs]
        for port in far:
            stack.callback(port.close)
        stack.callback(switch.vsctl, "del-br", bridge)
        yield Bystander(switch, bridge, *far)


# Columns that can't work, what the error must name, and columns that put it right.
CASES = {
    "devargs": (
        ("type=dpdk", "options:dpdk-devargs=net_nosuch0"),
        ("net_nosuch0", "no driver matches this name"),
        ("options:dpdk-devargs=net_null_heals,no-rx=1",),
    ),
    "no devargs": (
        ("type=dpdk",),
        ("options:dpdk-devargs", "a PCI address"),
        ("options:dpdk-devargs=net_null_heals,no-rx=1",),
    ),
    "n_rxq": (
        ("type=dpdk", "options:dpdk-devargs=net_null_heals,no-rx=1", "options:n_rxq=many"),
        ("options:n_rxq", "many"),
        ("options:n_rxq=1",),
    ),
    "n_rxq too large": (
        ("type=dpdk", "options:dpdk-devargs=net_null_heals,no-rx=1", "options:n_rxq=60000"),
        ("options:n_rxq", "60000"),
        ("options:n_rxq=1",),
    ),
    "path too long": (
        ("type=dpdkvhostuserclient", f"options:vhost-server-path=/tmp/{'x' * 120}"),
        ("125 octets", "at most 107"),
        ("options:vhost-server-path={rundir}/v.sock",),
    ),
    "group is no path": (
        ("type=shm", "options:group=../elsewhere"),
        ("options:group", "'/'"),
        ("options:group=here",),
    ),
    "MTU too small": (
        ("type=dpdk", "options:dpdk-devargs=net_null_heals,no-rx=1", "mtu_request=30"),
        ("MTU 30", "68 to 9978"),
        ("mtu_request=68",),
    ),
    "MTU too large": (
        ("type=dpdk", "options:dpdk-devargs=net_null_heals,no-rx=1", "mtu_request=99999"),
        ("MTU 99999", "68 to 9978"),
        ("mtu_request=1500",),
    ),
    "misspelt option": (
        ("type=memif", "options:sockett=/nowhere/x"),
        ("options:socket",),
        ("options={socket={rundir}/m.sock}",),
    ),
    "unknown type": (
        ("type=quantum",),
        ("quantum", "iface_types"),
        ("type=patch", "options:peer=none"),
    ),
    "remote_ip": (
        ("type=vxlan", "options:remote_ip=300.1.1.1"),
        ("options:remote_ip", "300.1.1.1"),
        ("options:remote_ip=192.0.2.9",),
    ),
    "no remote_ip": (
        ("type=vxlan",),
        ("options:remote_ip",),
        ("options:remote_ip=192.0.2.9",),
    ),
    "mac": (
        ("type=dpdk", "options:dpdk-devargs=net_null_heals,no-rx=1", 'mac="no mac"'),
        ("no mac", "xx:xx:xx:xx:xx:xx"),
        ('mac="02:00:00:00:00:77"',),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_bad_interface_says_why_and_heals(bystander: Bystander, case: str) -> None:
    bad, words, good = CASES[case]
    rundir = str(bystander.switch.rundir)
    error = bystander.add("x", *bad)
    for word in words:
        assert word in error
    assert bystander.switch.interface("x", "ofport") == -1
    assert bystander.forwards()
    healed = bystander.set("x", *(column.replace("{rundir}", rundir) for column in good))
    assert healed == "" or "options:peer" in healed
    assert bystander.switch.interface("x", "ofport") != -1
    assert bystander.forwards()


def test_a_missing_kernel_device_heals_when_it_is_there(bystander: Bystander) -> None:
    later = VethPair()
    assert later.near in bystander.add(later.near, "type=system")
    with later:
        assert bystander.error(later.near) == ""
        assert bystander.forwards()
        bystander.switch.vsctl("del-port", bystander.bridge, later.near)


def test_a_taken_socket_heals_when_it_is_free(bystander: Bystander) -> None:
    path = bystander.switch.rundir / "taken"
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as holder:
        holder.bind(str(path))
        holder.listen()
        error = bystander.add("x", "type=memif", f"options:socket={path}", "options:role=server")
        assert str(path) in error
        assert bystander.forwards()
    Path(path).unlink(missing_ok=True)
    assert bystander.error("x") == ""


def test_a_number_that_is_taken_is_given_when_it_is_free(bystander: Bystander) -> None:
    null = ("type=dpdk", "options:dpdk-devargs=net_null_{},no-rx=1")
    assert bystander.add("x", null[0], null[1].format("x"), "ofport_request=40") == ""
    error = bystander.add("y", null[0], null[1].format("y"), "ofport_request=40")
    assert "ofport_request 40" in error
    assert "x" in error
    assert bystander.switch.interface("y", "ofport") not in (-1, 40)
    bystander.switch.vsctl("del-port", bystander.bridge, "x")
    assert bystander.error("y") == ""
    assert bystander.switch.interface("y", "ofport") == 40
    assert bystander.forwards()


def test_one_device_serves_one_port(bystander: Bystander) -> None:
    assert bystander.add("x", "type=dpdk", "options:dpdk-devargs=net_null_once,no-rx=1") == ""
    error = bystander.add("y", "type=dpdk", "options:dpdk-devargs=net_null_once,no-rx=1")
    assert "net_null_once" in error
    assert bystander.error("x") == ""
    bystander.switch.vsctl("del-port", bystander.bridge, "x")
    assert bystander.error("y") == ""
    assert bystander.forwards()


def test_a_patch_says_who_is_missing(bystander: Bystander) -> None:
    assert "valid 'peer'" in bystander.add("p", "type=patch")
    assert "no port q" in bystander.set("p", "options:peer=q")
    assert bystander.switch.interface("p", "ofport") != -1
    assert bystander.add("q", "type=patch", "options:peer=elsewhere") != ""
    assert "q does not lead back here" in bystander.error("p")
    assert bystander.set("q", "options:peer=p") == ""
    assert bystander.error("p") == ""
    assert bystander.forwards()


@pytest.mark.parametrize(
    ("key", "value", "word"),
    [
        ("pmd-cpu-mask", "zz", "hexadecimal"),
        ("pmd-cpu-mask", "0x8000000000000000", "63"),
        ("pmd-maxsleep", "1000000", "10000"),
        ("emc-insert-inv-prob", "1", "not supported"),
    ],
)
def test_what_is_wrong_with_the_switch_stands_at_each_bridge(
    bystander: Bystander, key: str, value: str, word: str
) -> None:
    bystander.switch.vsctl("--no-wait", "set", "Open_vSwitch", ".", f"other_config:{key}={value}")
    error = bystander.bridge_status("switch_error")
    assert f"other_config:{key}" in error
    assert word in error
    assert bystander.forwards()
    bystander.switch.vsctl("remove", "Open_vSwitch", ".", "other_config", key)
    assert bystander.bridge_status("switch_error") == ""


def test_bridge_columns_that_are_not_served(bystander: Bystander) -> None:
    vsctl = bystander.switch.vsctl
    vsctl(
        "set", "Bridge", bystander.bridge, "stp_enable=true", "flood_vlans=5",
        "protocols=OpenFlow10,OpenFlow15", "other_config:unheard-of=60",
        "other_config:datapath-id=nonsense",
    )  # fmt: skip
    vsctl("--id=@s", "create", "sFlow", "targets=192.0.2.1", "--",
          "set", "Bridge", bystander.bridge, "sflow=@s")  # fmt: skip
    error = bystander.bridge_status("error")
    for column in ("stp_enable", "flood_vlans", "unheard-of", "datapath-id", "sflow", "protocols"):
        assert column in error
    assert "OpenFlow10, OpenFlow15: only OpenFlow13 is supported" in error
    vsctl("set", "Bridge", bystander.bridge, "protocols=OpenFlow10,OpenFlow13")
    assert "protocols" not in bystander.bridge_status("error")
    for column in ("sflow", "flood_vlans", "other_config", "protocols"):
        vsctl("clear", "Bridge", bystander.bridge, column)
    vsctl("set", "Bridge", bystander.bridge, "stp_enable=false")
    assert bystander.bridge_status("error") == ""
    assert bystander.forwards()


def test_interface_columns_that_are_not_served_leave_the_port_running(
    bystander: Bystander,
) -> None:
    error = bystander.add(
        "x", "type=dpdk", "options:dpdk-devargs=net_null_x,no-rx=1", "ingress_policing_rate=1000",
        "bfd:enable=true", "other_config:unheard-of=1",
    )  # fmt: skip
    for column in ("ingress_policing_rate", "bfd", "other_config:unheard-of"):
        assert column in error
    assert bystander.switch.interface("x", "ofport") != -1
    bystander.switch.vsctl("clear", "Interface", "x", "bfd", "other_config")
    assert bystander.set("x", "ingress_policing_rate=0") == ""


def test_an_affinity_to_nobody_says_which_queue_waits(bystander: Bystander) -> None:
    null = ("type=dpdk", "options:dpdk-devargs=net_null_x,no-rx=1")
    error = bystander.add("x", *null, 'other_config:pmd-rxq-affinity="0:77"')
    for words in ("no worker runs on CPU 77", "queue 0", "pmd-cpu-mask"):
        assert words in error
    assert bystander.switch.interface("x", "ofport") != -1
    assert "no queue 9" in bystander.set("x", 'other_config:pmd-rxq-affinity="9:1"')
    assert "is not queue:cpu" in bystander.set("x", "other_config:pmd-rxq-affinity=many")
    bystander.switch.vsctl("clear", "Interface", "x", "other_config")
    assert bystander.error("x") == ""
    assert bystander.forwards()


def test_names_are_unique(bystander: Bystander) -> None:
    """The database refuses a second row of one name; a kernel device is nobody else's either."""
    vsctl = bystander.switch.vsctl
    vsctl("add-port", bystander.bridge, "x", "--", "set", "Interface", "x", "type=dpdk",
          "options:dpdk-devargs=net_null_x,no-rx=1")  # fmt: skip
    with pytest.raises(AssertionError, match="already"):
        vsctl("add-port", bystander.bridge, "x")
    with VethPair() as pair:
        assert pair.near in bystander.add(pair.near, "type=tap")
    assert bystander.error(pair.near) == ""
    assert bystander.forwards()


def test_a_busy_tap_is_made_once_it_is_free(bystander: Bystander) -> None:
    """As after a takeover: the process before still holds the device, and nobody writes a row."""
    name = f"{bystander.bridge}b"
    holder = os.open("/dev/net/tun", os.O_RDWR)
    try:
        fcntl.ioctl(holder, TUNSETIFF, struct.pack("16sH22x", name.encode(), IFF_TAP_NO_PI))
        error = bystander.add(name, "type=tap")
        assert name in error
        assert bystander.switch.interface(name, "ofport") == -1
        assert bystander.error(name) == error
    finally:
        os.close(holder)
    switch = bystander.switch
    assert switch.process is not None
    switch.process.wait_until(lambda: switch.interface(name, "ofport") != -1)
    assert switch.interface(name, "error") == NONE
    assert bystander.forwards()
