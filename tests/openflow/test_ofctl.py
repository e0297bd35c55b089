# SPDX-License-Identifier: Apache-2.0
"""ovs-ofctl (OpenFlow13) against the management socket of a real headrace-switch."""

from __future__ import annotations

import os
import re
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.switch import Switch, run, running_switch

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

# The LOCAL port is a kernel device of this name.
BRIDGE = f"ofc{os.getpid()}"
FLOWS = ["in_port=1 actions=output:2", "in_port=2 actions=output:1"]


@pytest.fixture(scope="module")
def switch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Switch]:
    with running_switch(tmp_path_factory.mktemp("ofctl"), extra=("--no-huge",)) as running:
        running.vsctl(
            *("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "fail-mode=secure"),
            "other-config:datapath-id=00000000000000ab",
        )
        yield running


@pytest.fixture(autouse=True)
def empty(switch: Switch) -> None:
    for what in ("del-flows", "del-groups", "del-meters"):
        switch.ofctl(what, BRIDGE)


def flows(switch: Switch) -> list[str]:
    lines = switch.ofctl("dump-flows", BRIDGE, "--no-stats").splitlines()
    return sorted(line.strip() for line in lines)


def refused(switch: Switch, command: str, *words: str | Path) -> str:
    """What ovs-ofctl says of a request that the switch refuses."""
    done = subprocess.run(
        ["ovs-ofctl", "-O", "OpenFlow13", command, f"unix:{switch.rundir}/{BRIDGE}.mgmt", *words],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert done.returncode != 0
    return done.stderr


def test_show(switch: Switch) -> None:
    shown = switch.ofctl("show", BRIDGE)
    assert "dpid:00000000000000ab" in shown
    assert "n_tables:254" in shown
    assert f"LOCAL({BRIDGE}): addr:" in shown


@pytest.mark.parametrize(
    "flow",
    [
        "in_port=1 actions=output:2",
        "priority=10,tcp,in_port=1,tp_dst=80 actions=dec_ttl,output:2",
        "dl_vlan=100,dl_vlan_pcp=3 actions=pop_vlan,CONTROLLER:128",
        "ip,nw_src=10.0.0.0/8,nw_dst=10.1.2.3 actions=set_field:02:00:00:00:00:01->eth_dst,IN_PORT",
        "table=3, ipv6,ipv6_dst=2001:db8::/32 actions=goto_table:4",
        "mpls,mpls_label=77,mpls_bos=1 actions=pop_mpls:0x0800,output:3",
        "metadata=0x1200/0xff00 actions=write_metadata:0xab/0xff,goto_table:1",
        "arp,arp_tpa=10.0.0.1,arp_op=1 actions=ALL",
        "actions=push_vlan:0x8100,set_field:4196->vlan_vid,FLOOD",
        "tcp,tcp_flags=+syn-ack actions=drop",
        "tun_id=0x5 actions=set_field:0x7->tun_id,output:1",
        "tun_src=192.0.2.1,tun_dst=192.0.2.0/24 actions=set_field:192.0.2.2->tun_dst,output:1",
        "tun_ipv6_src=2001:db8::1,tun_ipv6_dst=2001:db8::/32 "
        "actions=set_field:2001:db8::2->tun_ipv6_dst,output:1",
        "ip actions=write_actions(dec_ttl,output:3)",
        "idle_timeout=10, hard_timeout=20, send_flow_rem priority=7,udp actions=NORMAL",
    ],
)
def test_flow_comes_back_as_it_went(switch: Switch, flow: str) -> None:
    switch.ofctl("add-flow", BRIDGE, flow)
    assert flows(switch) == [flow]


def test_files_of_flows(switch: Switch, tmp_path: Path) -> None:
    file = tmp_path / "flows"
    file.write_text("\n".join(FLOWS) + "\n")
    switch.ofctl("add-flow", BRIDGE, "in_port=9,actions=drop")
    switch.ofctl("replace-flows", BRIDGE, file)
    assert flows(switch) == FLOWS
    switch.ofctl("diff-flows", BRIDGE, file)
    switch.ofctl("mod-flows", BRIDGE, "in_port=2,actions=drop")
    assert flows(switch) == [FLOWS[0], "in_port=2 actions=drop"]
    switch.ofctl("del-flows", BRIDGE, "in_port=2")
    assert flows(switch) == FLOWS[:1]


def test_many_flows_in_a_bundle(switch: Switch, tmp_path: Path) -> None:
    file = tmp_path / "flows"
    file.write_text(
        "\n".join(f"ip,nw_dst=10.{i >> 8}.{i & 255}.0/24,actions=output:1" for i in range(5000))
    )
    switch.ofctl("add-flows", BRIDGE, file, "--bundle")
    aggregate = switch.ofctl("dump-aggregate", BRIDGE)
    assert "flow_count=5000" in aggregate
    assert len(flows(switch)) == 5000


def test_bundle_is_all_or_nothing(switch: Switch, tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    good.write_text("group add group_id=7,type=all,bucket=output:1\nflow add actions=group:7\n")
    switch.ofctl("bundle", BRIDGE, good)
    assert flows(switch) == ["actions=group:7"]
    bad.write_text("flow delete\nflow add in_port=1 actions=group:99\n")
    assert "OFPBAC_BAD_OUT_GROUP" in refused(switch, "bundle", bad)
    assert flows(switch) == ["actions=group:7"]


def test_groups(switch: Switch) -> None:
    group = (
        "group_id=1,type=select,bucket=weight:10,actions=output:1,bucket=weight:20,actions=output:2"
    )
    switch.ofctl("add-group", BRIDGE, group)
    assert switch.ofctl("dump-groups", BRIDGE).splitlines()[1].strip() == group
    assert "bucket1:packet_count=0" in switch.ofctl("dump-group-stats", BRIDGE)
    assert "OFPGMFC_GROUP_EXISTS" in refused(switch, "add-group", group)
    switch.ofctl("mod-group", BRIDGE, "group_id=1,type=all,bucket=output:3")
    assert "type=all" in switch.ofctl("dump-groups", BRIDGE)
    switch.ofctl("del-groups", BRIDGE, "group_id=1")
    assert len(switch.ofctl("dump-groups", BRIDGE).splitlines()) == 1


def test_weights_are_for_select_groups(switch: Switch) -> None:
    """Section 6.5: a field that the type does not define; ovs-ofctl sends none by itself."""
    watched = {"ff": "watch_port:1,"}
    for number, kind in enumerate(("all", "indirect", "ff"), 1):
        bucket = f"{watched.get(kind, '')}output:1"
        switch.ofctl("add-group", BRIDGE, f"group_id={number},type={kind},bucket={bucket}")
    switch.ofctl("add-group", BRIDGE, "group_id=9,type=select,bucket=output:1")
    assert "group_id=9,type=select" in switch.ofctl("dump-groups", BRIDGE)


def test_meters(switch: Switch) -> None:
    switch.ofctl("add-meter", BRIDGE, "meter=5,kbps,burst,band=type=drop,rate=1000,burst_size=100")
    assert "rate=1000 burst_size=100" in switch.ofctl("dump-meters", BRIDGE)
    switch.ofctl("add-flow", BRIDGE, "in_port=1,actions=meter:5,output:2")
    assert "flow_count:1" in switch.ofctl("meter-stats", BRIDGE)
    switch.ofctl("del-meter", BRIDGE, "meter=5")
    assert flows(switch) == []


def test_refusals_are_named(switch: Switch) -> None:
    assert "OFPBAC_BAD_VENDOR" in refused(switch, "add-flow", "actions=resubmit(,1)")
    assert "OFPBMC_BAD_FIELD" in refused(switch, "add-flow", "reg0=5,actions=drop")
    assert "OFPBAC_BAD_OUT_GROUP" in refused(switch, "add-flow", "actions=group:4")
    assert "OFPMMFC_UNKNOWN_METER" in refused(switch, "add-flow", "actions=meter:4,output:1")
    assert "OFPBIC_BAD_TABLE_ID" in refused(switch, "add-flow", "actions=goto_table:254")


def test_other_statistics(switch: Switch) -> None:
    assert "port LOCAL" in switch.ofctl("dump-ports", BRIDGE)
    assert "active=0" in switch.ofctl("dump-tables", BRIDGE)
    assert f"LOCAL({BRIDGE})" in switch.ofctl("dump-ports-desc", BRIDGE)
    assert "Headrace" in switch.ofctl("dump-desc", BRIDGE)
    features = switch.ofctl("dump-table-features", BRIDGE)
    assert "next tables: 1-253" in features
    assert "arbitrary mask: tun_{id,src,dst,ipv6_{src,dst}}" in features
    assert "supported on Set-Field: tun_{id,src,dst,ipv6_{src,dst}}" in features
    assert "port LOCAL queue 0" in switch.ofctl("queue-stats", BRIDGE)
    assert "kbps pktps burst stats" in switch.ofctl("meter-features", BRIDGE)
    assert "Capabilities" in switch.ofctl("dump-group-features", BRIDGE)


def test_port_can_be_configured(switch: Switch) -> None:
    switch.ofctl("mod-port", BRIDGE, BRIDGE, "no-forward")
    assert "NO_FWD" in switch.ofctl("dump-ports-desc", BRIDGE)
    switch.ofctl("mod-port", BRIDGE, BRIDGE, "forward")
    assert "NO_FWD" not in switch.ofctl("dump-ports-desc", BRIDGE)


def test_ways_to_deal_with_fragments(switch: Switch) -> None:
    for mode in ("drop", "reassemble", "normal"):
        switch.ofctl("set-frags", BRIDGE, mode)
        assert switch.ofctl("get-frags", BRIDGE) == mode


def test_benchmark(switch: Switch) -> None:
    # 20 echoes of 1000 octets in parallel.
    done = switch.ofctl("benchmark", BRIDGE, 1000, 20)
    assert re.search(r"Finished in [0-9.]+ ms \(\d+ packets/s\)", done), done


def test_snoop_shows_what_a_controller_says(switch: Switch, tmp_path: Path) -> None:
    switch.vsctl("set-controller", BRIDGE, f"punix:{tmp_path}/controller")
    log = tmp_path / "snoop.log"
    snooping = Daemon(
        [
            *("/usr/bin/env", f"OVS_RUNDIR={tmp_path}", "ovs-ofctl", "-O", "OpenFlow13"),
            *("snoop", f"unix:{switch.rundir}/{BRIDGE}.snoop"),
        ],
        log,
    )
    try:

        def seen() -> bool:
            run("ovs-ofctl", "-O", "OpenFlow13", "dump-tables", f"unix:{tmp_path}/controller")
            return "OFPST_TABLE reply" in log.read_text()

        snooping.wait_until(seen)
        assert "OFPST_TABLE request" in log.read_text()
    finally:
        snooping.stop()
        switch.vsctl("del-controller", BRIDGE)


def test_monitor_sees_a_packet_out(switch: Switch, tmp_path: Path) -> None:
    switch.ofctl("add-flow", BRIDGE, "actions=CONTROLLER:65535")
    monitor = Daemon(
        [
            *("/usr/bin/env", f"OVS_RUNDIR={tmp_path}", "ovs-ofctl", "-O", "OpenFlow13"),
            *("monitor", f"unix:{switch.rundir}/{BRIDGE}.mgmt", "65534"),
        ],
        tmp_path / "monitor.log",
    )
    try:
        time.sleep(0.5)  # until its set-config has arrived; it says nothing of that
        frame = "ffffffffffff02000000000188cc" + "00" * 46
        switch.ofctl("packet-out", BRIDGE, f"in_port=LOCAL packet={frame} actions=TABLE")
        monitor.wait_until(lambda: "OFPT_PACKET_IN" in monitor.log.read_text())
        assert "in_port=LOCAL (via action)" in monitor.log.read_text()
    finally:
        monitor.stop()


def test_no_packet_out_ends_unnoticed(switch: Switch) -> None:
    """More at once than wait for a worker: each is sent, or is a drop with a name."""
    sent = 5000
    switch.vsctl(
        *("add-port", BRIDGE, "sink", "--", "set", "Interface", "sink", "type=dpdk"),
        *("ofport_request=1", "options:dpdk-devargs=net_null_sink,no-rx=1"),
    )
    action = struct.pack("!HHIHxxxxxx", 0, 16, 1, 0xFFFF)
    body = struct.pack("!IIHxxxxxx", 0xFFFFFFFF, 0xFFFFFFFD, len(action)) + action + bytes(60)
    packet_out = struct.pack("!BBHI", 4, 13, 8 + len(body), 1) + body
    barrier = struct.pack("!BBHI", 4, 20, 8, 77)

    def ended() -> int:
        (lsi,) = [lsi for lsi in switch.call("drops")["lsis"] if lsi["name"] == BRIDGE]
        counters = switch.port("sink")["counters"]
        return int(counters["tx_packets"] + counters["tx_dropped"] + sum(lsi["control"].values()))

    before = ended()
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(30)
        connection.connect(str(switch.rundir / f"{BRIDGE}.mgmt"))
        connection.sendall(struct.pack("!BBHI", 4, 0, 8, 1) + packet_out * sent + barrier)
        answer = b""
        while barrier[4:] not in answer:
            answer += connection.recv(4096)
    end = time.monotonic() + 20
    while ended() - before < sent:
        assert time.monotonic() < end, switch.call("drops")
        time.sleep(0.05)
    assert ended() - before == sent
    switch.vsctl("del-port", "sink")
