# SPDX-License-Identifier: Apache-2.0
"""Every ovs-ofctl command that OpenFlow 1.3 has, here and on a real Open vSwitch: the same output.

Open vSwitch runs with dummy ports. Compared are the exit code and all that ovs-ofctl prints, but
for what must differ (times, addresses, counts, the order within a table, speeds). Where the two
differ on purpose, `DIFFERENT` says what Headrace answers and why.
"""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.conformance_openflow.topology import OpenVSwitch
from tests.support.switch import Switch, running_switch

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

BRIDGE = f"cmp{os.getpid()}"
FRAME = "00112233445566778899aabb0800" + "00" * 46

# One after the other, on the same switch. BR: the bridge; a name in braces: a file.
STEPS = """
get-frags BR
set-frags BR drop
get-frags BR
set-frags BR normal
get-frags BR
dump-ports-desc BR
queue-get-config BR 77
queue-get-config BR 1
queue-get-config BR
queue-stats BR 1 7
queue-stats BR 1 0
queue-stats BR 1
queue-stats BR
queue-stats BR 77
add-flow BR in_port=1,actions=output:2
add-flow BR table=1,priority=10,tcp,tp_dst=80,actions=output:2
add-flow BR cookie=0x1234,table=2,idle_timeout=60,hard_timeout=120,send_flow_rem,actions=drop
add-flow BR table=3,ip,nw_src=10.0.0.0/8,nw_tos=4,actions=mod_nw_tos:8,output:1
add-flow BR table=4,dl_vlan=5,actions=strip_vlan,mod_dl_src:00:11:22:33:44:55,output:1
add-flow BR table=4,dl_vlan=6,actions=mod_vlan_vid:7,output:1
add-flow BR table=4,vlan_tci=0x1000/0x1000,actions=output:1
add-flow BR table=4,vlan_tci=0,actions=output:2
add-flow BR table=5,ip,actions=mod_nw_src:1.2.3.4,mod_nw_dst:5.6.7.8,mod_nw_ttl:5,normal
add-flow BR table=5,udp6,actions=set_field:2001::1->ipv6_src,flood
add-flow BR table=6,priority=3,actions=set_queue:1,output:2
add-flow BR table=6,priority=5,actions=in_port,all,local
add-flow BR table=6,priority=6,actions=controller(max_len=100)
add-flow BR table=6,priority=8,ip,actions=push_mpls:0x8847,set_field:5->mpls_label,set_mpls_ttl(7)
add-flow BR table=6,priority=16,tun_id=5,actions=drop
add-flow BR table=6,priority=16,tun_ipv6_src=2001::/16,actions=set_field:2001::2->tun_ipv6_dst
add-flow BR table=6,priority=16,tun_ipv6_dst=2001::1,tun_src=1.2.3.4,actions=drop
add-flow BR table=6,priority=17,metadata=5/0xf,actions=write_metadata:7,goto_table:9
add-flow BR table=6,priority=18,actions=clear_actions,write_actions(output:1),goto_table:8
add-flow BR table=6,priority=19,icmp,icmp_type=8,actions=drop
add-flow BR table=6,priority=20,icmp6,icmp_type=135,nd_target=2001::1,actions=drop
add-flow BR table=6,priority=21,sctp,tp_src=5,actions=drop
add-flow BR table=6,priority=25,tcp,tcp_flags=+syn,actions=drop
add-flow BR table=6,priority=26,in_port=LOCAL,actions=drop
add-flow BR table=6,priority=27,dl_dst=01:00:00:00:00:00/01:00:00:00:00:00,actions=drop
add-flow BR table=6,priority=29,actions=output:77
add-flow BR table=6,priority=34,ipv6,ipv6_label=5,actions=set_field:6->ipv6_label
add-flow BR table=6,priority=35,arp,arp_op=1,actions=set_field:2->arp_op
add-flow BR table=6,priority=37,actions=group:5
add-flow BR table=6,priority=40,check_overlap,in_port=1,actions=drop
add-flow BR table=6,priority=40,check_overlap,ip,actions=drop
add-flow BR table=255,actions=drop
add-flow BR in_port=2,tcp,actions=goto_table:0
add-flow BR actions=ct(commit)
add-flow BR nonsense=1,actions=drop
add-flow BR in_port=2,actions=nonsense
dump-flows BR table=1
dump-flows BR cookie=0x1234/-1
dump-flows BR table=200
dump-flows --no-stats BR
dump-flows --no-stats BR tcp
dump-flows --no-stats BR out_group=3
dump-flows --no-stats BR table=6,out_port=2
dump-flows --no-stats --names BR in_port=1
dump-flows --no-stats --sort BR table=6
dump-flows --no-stats --rsort=priority BR table=6
dump-aggregate BR
dump-aggregate BR table=6
mod-flows BR table=1,actions=output:1
mod-flows --strict BR table=1,priority=10,tcp,tp_dst=80,actions=drop
mod-flows --strict BR table=1,priority=11,tcp,tp_dst=80,actions=drop
mod-flows BR cookie=0x1234/-1,actions=output:1
dump-flows --no-stats BR table=1
dump-flows --no-stats BR table=2
del-flows --strict BR table=1,priority=10,tcp,tp_dst=80
del-flows BR cookie=0x1234/-1
del-flows BR table=6,out_port=2
dump-aggregate BR
del-flows BR
add-flows BR {flows}
dump-flows --no-stats BR
replace-flows BR {other}
dump-flows --no-stats BR
diff-flows BR {flows}
diff-flows {flows} BR
diff-flows BR {other}
add-flows --bundle BR {flows}
replace-flows --bundle BR {other}
dump-flows --no-stats BR
bundle BR {good}
dump-flows --no-stats BR
dump-groups BR
bundle BR {bad}
dump-flows --no-stats BR
del-flows --bundle BR
del-groups BR
add-group BR group_id=1,type=all,bucket=output:1,bucket=output:2
add-group BR group_id=1,type=all,bucket=output:1
add-group BR group_id=2,type=select,bucket=weight:5,output:1,bucket=weight:0,output:2
add-group BR group_id=3,type=ff,bucket=watch_port:1,output:1,bucket=watch_port:2,output:2
add-group BR group_id=4,type=indirect,bucket=output:1
add-group BR group_id=5,type=indirect,bucket=output:1,bucket=output:2
add-group BR group_id=6,type=all
add-group BR group_id=7,type=ff,bucket=output:1
add-group BR group_id=4294967295,type=all,bucket=output:1
mod-group BR group_id=1,type=select,bucket=output:1
mod-group BR group_id=99,type=select,bucket=output:1
mod-group --may-create BR group_id=98,type=select,bucket=output:1
mod-group --may-create BR group_id=98,type=all,bucket=output:2
insert-buckets BR group_id=1,command_bucket_id=last,bucket=output:2
remove-buckets BR group_id=1,command_bucket_id=all
dump-groups BR
dump-group-stats BR
dump-group-stats BR 2
dump-group-stats BR 777
add-flow BR in_port=1,actions=group:1
dump-group-stats BR 1
del-groups BR group_id=1
dump-flows --no-stats BR
del-groups BR
dump-groups BR
add-meter BR meter=1,kbps,band=type=drop,rate=1000
add-meter BR meter=1,kbps,band=type=drop,rate=1000
add-meter BR meter=2,pktps,burst,stats,band=type=drop,rate=10,burst_size=5
add-meter BR meter=4,pktps,bands=type=drop,rate=0
mod-meter BR meter=1,pktps,band=type=drop,rate=10
mod-meter BR meter=77,pktps,band=type=drop,rate=10
dump-meters BR
dump-meter BR meter=1
dump-meter BR meter=77
meter-stats BR
meter-stats BR meter=77
add-flow BR in_port=1,actions=meter:1,output:2
dump-flows --no-stats BR
meter-stats BR meter=1
del-meter BR meter=1
del-meter BR meter=77
dump-flows --no-stats BR
del-meters BR
dump-meters BR
mod-port BR 1 no-receive
mod-port BR 1 no-forward
mod-port BR 1 no-packet-in
mod-port BR 1 no-flood
dump-ports-desc BR 1
mod-port BR 1 receive
mod-port BR 1 forward
mod-port BR 1 packet-in
mod-port BR 77 down
mod-port BR p2 no-forward
mod-port BR p2 forward
mod-table BR 0 drop
mod-table BR all continue
mod-table BR 0 evict
mod-table BR 0 vacancy:20,80
mod-table BR 254 drop
dump-table-desc BR
ping BR
ping BR 1000
probe BR
packet-out BR in_port=controller,packet=FRAME,actions=output:1
packet-out BR in_port=77,packet=FRAME,actions=output:1
packet-out BR in_port=1,packet=0011,actions=output:1
packet-out BR in_port=1,packet=FRAME,actions=table
packet-out BR in_port=1,packet=FRAME,actions=nonsense
dump-ports BR p1
monitor BR nonsense
snoop BR nonsense
"""

# On Open vSwitch, a flow with a meter that is not there is INVALID_METER; the specification says
# UNKNOWN_METER (6.4). A group in a cycle is a LOOP and one that another forwards to is CHAINED
# (6.5); a statistics request for a port that is not there is BAD_PORT (7.3.5.6); table 254 is a
# BAD_TABLE_ID. Open vSwitch takes all of these.
DIFFERENT = {
    "add-flow BR actions=meter:5": "OFPMMFC_UNKNOWN_METER",
    "add-group BR group_id=12,type=all,bucket=group:12": "OFPGMFC_LOOP",
    "dump-ports BR 77": "OFPBRC_BAD_PORT",
    "add-flow BR table=254,actions=drop": "OFPFMFC_BAD_TABLE_ID",
    "add-flow BR actions=resubmit(,1)": "OFPBAC_BAD_VENDOR",
    "dump-tlv-map BR": "OFPBRC_BAD_SUBTYPE",
    "ct-flush-zone BR 1": "OFPBRC_BAD_SUBTYPE",
}


@dataclass(frozen=True)
class Target:
    """Where a bridge called BRIDGE is."""

    rundir: Path
    files: dict[str, Path]

    def run(self, step: str) -> str:
        """Runs a step; its exit code and output, without what differs anyway."""
        words = ["ovs-ofctl", "-O", "OpenFlow13", "--timeout=10"]
        for word in step.split():
            text = word.format(**self.files) if word.startswith("{") else word
            text = f"unix:{self.rundir}/{BRIDGE}.mgmt" if text == "BR" else text
            words.append(text.replace("FRAME", FRAME))
        done = subprocess.run(words, capture_output=True, text=True, timeout=20, check=False)
        return f"[{done.returncode}] " + comparable(done.stdout + done.stderr)


def comparable(text: str) -> str:
    """Without times, addresses and speeds; lines in order."""
    text = text.replace(BRIDGE, "BR")
    for pattern, replacement in (
        (r"unix:[^ :,]*|/tmp/[^ :,]*", "PATH"),
        (r"xid=0x[0-9a-f]+", "xid=X"),
        (r"duration[=:]([0-9.]+s?|\?)", "duration=D"),
        (r"addr:[0-9a-f:]{17}", "addr:M"),
        (r"[0-9.]+ ms", "T"),
        (r"^\d{4}-\d\d-\d\dT[^|]*\|\d+\|", ""),
        (r"^0000.*$", ""),
        (r"^ +(current|supported|advertised|speed):.*$", ""),
        (r"^ +state: .*$", ""),
        (r"port=ANY", ""),
        # A tap's kernel side may send of its own accord.
        (r"(packet_in_count|byte_in_count):[0-9]+", r"\1:N"),
        (r"(packet_count|byte_count|pkts|bytes|errors|drop|errs)=[0-9?]+", r"\1=N"),
    ):
        text = re.sub(pattern, replacement, text, flags=re.MULTILINE)
    return "\n".join(sorted(line for line in text.splitlines() if line.strip()))


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    where = tmp_path_factory.mktemp("files")
    contents = {
        "flows": "in_port=1,actions=output:2\nip,nw_dst=10.0.0.0/8,actions=dec_ttl,output:1\n",
        "other": "in_port=1,actions=output:1\npriority=7,arp,actions=drop\n",
        "good": "flow add in_port=3,actions=drop\n"
        "group add group_id=9,type=all,bucket=output:1\n"
        "flow modify in_port=3,actions=group:9\n",
        "bad": "flow add in_port=4,actions=drop\nflow add in_port=5,actions=group:77\n",
    }
    for name, content in contents.items():
        (where / name).write_text(content)
    return {name: where / name for name in contents}


@pytest.fixture(scope="module")
def headrace(tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path]) -> Iterator[Target]:
    with running_switch(tmp_path_factory.mktemp("headrace"), extra=("--no-huge",)) as switch:
        make_bridge(switch, "tap")
        yield Target(switch.rundir, files)


@pytest.fixture(scope="module")
def open_vswitch(
    tmp_path_factory: pytest.TempPathFactory, files: dict[str, Path]
) -> Iterator[Target]:
    switch = OpenVSwitch(tmp_path_factory.mktemp("ovs"), "--enable-dummy=override")
    try:
        switch.start()
        make_bridge(switch, "dummy", "datapath_type=dummy")
        yield Target(switch.rundir, files)
    finally:
        switch.stop()


def make_bridge(switch: Switch | OpenVSwitch, kind: str, *settings: str) -> None:
    """The same bridge on either."""
    words = ["add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "fail-mode=secure", *settings]
    for number in (1, 2):
        name = f"p{number}"
        words += ["--", "add-port", BRIDGE, name, "--", "set", "Interface", name]
        words += [f"type={kind}", f"ofport_request={number}"]
    switch.vsctl(*words)


def test_every_command_prints_the_same(headrace: Target, open_vswitch: Target) -> None:
    differences = []
    for step in STEPS.strip().splitlines():
        ours, theirs = headrace.run(step), open_vswitch.run(step)
        if ours != theirs:
            differences.append(f"{step}\n  Open vSwitch: {theirs}\n  Headrace: {ours}")
    assert not differences, "\n".join(differences)


@pytest.mark.parametrize("step", DIFFERENT)
def test_refusals_that_open_vswitch_does_not_have(headrace: Target, step: str) -> None:
    assert DIFFERENT[step] in headrace.run(step)


def test_monitor_watch_prints_the_same(
    headrace: Target, open_vswitch: Target, tmp_path: Path
) -> None:
    seen = []
    for target in (headrace, open_vswitch):
        target.run("del-flows BR")
        target.run("add-flow BR in_port=1,actions=output:2")
        log = tmp_path / f"{target.rundir.name}.log"
        with log.open("w") as output:
            monitor = subprocess.Popen(
                [
                    *("/usr/bin/env", f"OVS_RUNDIR={tmp_path}", "ovs-ofctl", "-O", "OpenFlow13"),
                    *("monitor", f"unix:{target.rundir}/{BRIDGE}.mgmt", "watch:"),
                ],
                stdout=output,
                stderr=output,
            )
        try:
            wait_for(log, "event=ADDED")
            target.run("add-flow BR table=3,priority=7,idle_timeout=9,ip,actions=output:2")
            target.run("mod-flows BR table=3,ip,actions=output:1")
            target.run("del-flows BR")
            wait_for(log, "in_port=1 actions=output:2", times=2)
        finally:
            monitor.terminate()
            monitor.wait()
        events = [line for line in log.read_text().splitlines() if "event=" in line]
        seen.append(sorted(events))
    assert seen[0] == seen[1]
    assert len(seen[0]) == 5


def wait_for(log: Path, text: str, times: int = 1) -> None:
    """Waits until a file has a text."""
    for _ in range(500):
        if log.read_text().count(text) >= times:
            return
        time.sleep(0.02)
    raise AssertionError(f"no {text!r} in:\n{log.read_text()}")
