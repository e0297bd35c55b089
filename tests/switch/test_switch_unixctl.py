# SPDX-License-Identifier: Apache-2.0
"""The real ovs-appctl speaks to the switch, by its name or by its socket."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.frames import udp_frame
from tests.support.switch import Switch, running_switch, unique_bridge
from tests.support.veth import RawPort, VethPair

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

VERSION = re.compile(r"headrace-switch \(Headrace\) \S+\nDPDK \S+\n")


def appctl(
    switch: Switch, *words: str, target: str | Path = "headrace-switch"
) -> subprocess.CompletedProcess[str]:
    """Runs ovs-appctl as an operator does, with OVS_RUNDIR at the switch's directory."""
    return subprocess.run(
        ["ovs-appctl", "--timeout=10", "-t", str(target), *words],
        env={**os.environ, "OVS_RUNDIR": str(switch.rundir)},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


def said(switch: Switch, *words: str) -> str:
    """The output of a command that is served."""
    done = appctl(switch, *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def refused(switch: Switch, *words: str) -> str:
    """What ovs-appctl says about a command that the switch refuses."""
    done = appctl(switch, *words)
    assert done.returncode == 2 and done.stdout == "", done
    return done.stderr.splitlines()[0]


def test_finds_the_switch_by_its_pidfile(switch: Switch) -> None:
    """`ovs-appctl -t headrace-switch` needs the pidfile and the socket, and both go at the end."""
    assert switch.process is not None
    pid = int((switch.rundir / "headrace-switch.pid").read_text())
    socket = switch.rundir / f"headrace-switch.{pid}.ctl"
    assert VERSION.fullmatch(said(switch, "version"))
    assert appctl(switch, "version", target=socket).returncode == 0
    commands = said(switch, "list-commands").splitlines()
    assert commands[0] == "The available commands are:"
    assert "  fdb/show                bridge" in commands
    assert "  ofproto/trace           bridge br_flow [packet]" in commands
    switch.stop_switch()
    assert not socket.exists() and not (switch.rundir / "headrace-switch.pid").exists()


def test_replaces_what_a_killed_switch_left(switch: Switch) -> None:
    """After SIGKILL the pidfile and the socket stay; the next switch is found all the same."""
    pid = int((switch.rundir / "headrace-switch.pid").read_text())
    switch.stop_switch(signal.SIGKILL)
    assert (switch.rundir / f"headrace-switch.{pid}.ctl").exists()
    switch.start_switch()
    assert VERSION.fullmatch(said(switch, "version"))
    assert not (switch.rundir / f"headrace-switch.{pid}.ctl").exists()


def test_paths_are_options(rundir: Path) -> None:
    """--unixctl and --pidfile say where."""
    socket, pidfile = rundir / "own.ctl", rundir / "own.pid"
    extra = ("--unixctl", str(socket), "--pidfile", str(pidfile))
    with running_switch(rundir, extra=extra) as switch:
        assert VERSION.fullmatch(appctl(switch, "version", target=socket).stdout)
        assert pidfile.exists() and not (rundir / "headrace-switch.pid").exists()


def test_the_other_control_socket_says_where_to_go(switch: Switch) -> None:
    """It has waited for a newline that ovs-appctl never sends."""
    done = appctl(switch, "list-commands", target=switch.control)
    assert done.returncode == 2
    assert "not for ovs-appctl; use: ovs-appctl -t " in done.stderr
    named = re.search(r"-t (\S+) COMMAND", done.stderr)
    assert named is not None
    assert appctl(switch, "version", target=named[1]).returncode == 0


def test_errors_are_those_of_ovs(switch: Switch) -> None:
    """Unknown commands, wrong numbers of arguments, and what OVS has and this switch has not."""
    assert refused(switch, "nonsense") == (
        '"nonsense" is not a valid command (use "list-commands" to see a list of valid commands)'
    )
    assert refused(switch, "fdb/show") == '"fdb/show" command requires at least 1 arguments'
    assert refused(switch, "fdb/show", "a", "b") == '"fdb/show" command takes at most 1 arguments'
    assert refused(switch, "fdb/show", "br9") == "no such bridge"
    assert refused(switch, "fdb/flush", "br9") == "no such bridge"
    assert refused(switch, "bond/show") == (
        '"bond/show" is not served by headrace-switch: there are no bonds; '
        "use a select group of the ports"
    )
    assert "headrace switch tables" in refused(switch, "dpctl/dump-flows")
    assert refused(switch, "vlog/set", "foo") == 'no destination, level, or module "foo"'
    assert "the log goes to stderr" in refused(switch, "vlog/set", "any:syslog:dbg")


def test_fdb_shows_and_forgets_what_normal_learned(switch: Switch) -> None:
    """The layout is OVS's: port, VLAN, MAC, age."""
    bridge = unique_bridge()
    with VethPair() as pair:
        switch.vsctl("add-br", bridge)
        switch.vsctl(
            "add-port",
            bridge,
            pair.near,
            "--",
            "set",
            "Interface",
            pair.near,
            "type=system",
            "ofport_request=7",
        )
        with closing(RawPort(pair.far)) as port:
            header = said(switch, "fdb/show", bridge)
            assert header.startswith(" port  VLAN  MAC                Age\n")
            port.send(udp_frame(eth_src="02:00:00:00:00:77"))
            for _ in range(100):
                shown = said(switch, "fdb/show", bridge)
                if "02:00:00:00:00:77" in shown:
                    break
            assert re.search(r"^    7     0  02:00:00:00:00:77    \d$", shown, re.M), shown
            assert said(switch, "fdb/flush", bridge) == "table successfully flushed\n"
            assert "02:00:00:00:00:77" not in said(switch, "fdb/show", bridge)


def test_traces_a_packet_table_by_table(switch: Switch) -> None:
    """What ofproto/trace tells of rules, structures, groups and drops; OVS's words where it has."""
    bridge = unique_bridge()
    switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "fail_mode=secure")
    for number in (1, 2):
        switch.vsctl(
            "add-port",
            bridge,
            f"{bridge}p{number}",
            "--",
            "set",
            "Interface",
            f"{bridge}p{number}",
            "type=dpdk",
            f"options:dpdk-devargs=net_null{number}",
            f"ofport_request={number}",
        )
    switch.ofctl("add-group", bridge, "group_id=5,type=select,bucket=weight:10,output:2")
    switch.ofctl(
        "add-flow",
        bridge,
        "table=0,priority=100,ip,nw_dst=10.0.0.0/8,cookie=0x5,"
        "actions=set_field:02:00:00:00:00:09->eth_dst,goto_table:1",
    )
    switch.ofctl("add-flow", bridge, "table=1,actions=write_actions(group:5)")
    told = said(
        switch, "ofproto/trace", bridge, f"in_port={bridge}p1,udp,nw_dst=10.1.1.1,tp_dst=53"
    )
    assert told.startswith("Flow: udp,in_port=1,vlan_tci=0x0000,dl_src=00:00:00:00:00:00,")
    heading = f'bridge("{bridge}")'
    assert f"\n\n{heading}\n{'-' * len(heading)}\n" in told
    assert " 0. ip,nw_dst=10.0.0.0/8, priority 100, cookie 0x5\n    (" in told
    assert "    set_field:02:00:00:00:00:09->eth_dst\n     -> dl_dst=02:00:00:00:00:09\n" in told
    assert "\n 1. priority 32768\n" in told
    assert (
        "--. Executing action set:\n    group:5\n     -> bucket 0 of 1 (select): output:2" in told
    )
    assert told.endswith("Datapath actions: 2\n")
    octets = udp_frame(ip_dst="10.1.1.1").hex()
    assert said(switch, "ofproto/trace", bridge, "in_port=2", octets).endswith(
        "Datapath actions: drop (input-port)\n"
    )
    missed = said(switch, "ofproto/trace", bridge, "in_port=1,arp")
    assert "\n 0. No match.\n" in missed and "Datapath actions: drop (table-miss)\n" in missed
    assert "n_packets=0" in switch.ofctl("dump-flows", bridge)  # a trace counts nothing
    assert refused(switch, "ofproto/trace", "br9", "in_port=1") == "br9: unknown bridge"
    assert refused(switch, "ofproto/trace", bridge, "foo=1") == (
        "Bad openflow flow syntax: foo=1: unknown field foo"
    )
    assert refused(switch, "ofproto/trace", bridge, "in_port=1", "0102") == (
        "Packet data too short for Ethernet"
    )


def test_tells_what_workers_do(switch: Switch) -> None:
    """Layouts that scripts read: pmd thread lines, queues, events."""
    bridge = unique_bridge()
    switch.vsctl(
        "add-br",
        bridge,
        "--",
        "add-port",
        bridge,
        f"{bridge}p",
        "--",
        "set",
        "Interface",
        f"{bridge}p",
        "type=dpdk",
        "options:dpdk-devargs=net_null0",
    )
    stats = said(switch, "dpif-netdev/pmd-stats-show")
    core = re.match(r"pmd thread numa_id \d+ core_id (\d+):\n  packets received: \d+\n", stats)
    assert core is not None, stats
    assert re.search(r"^  idle cycles: \d+ \(\d+\.\d\d%\)$", stats, re.M)
    assert re.search(r"^  processing cycles: \d+ \(\d+\.\d\d%\)$", stats, re.M)
    assert said(switch, "dpif-netdev/pmd-stats-show", "-pmd", "4095") == ""
    queues = said(switch, "dpif-netdev/pmd-rxq-show", "-pmd", core[1])
    assert re.search(rf"^  port: {bridge}p\s+queue-id:  0 \(enabled\)", queues, re.M), queues
    assert "  isolated : false\n" in queues
    assert re.search(r"^  overhead: +\d+ %$", queues, re.M), queues
    assert "an existing datapath" in refused(switch, "dpif-netdev/pmd-rxq-show", "other")
    coverage = said(switch, "coverage/show")
    assert re.search(r"^drop_no-output +total: \d+$", coverage, re.M) or "never hit" in coverage
    assert re.fullmatch(r"\d+ events never hit", coverage.splitlines()[-1])
    assert said(switch, "coverage/read-counter", "drop_meter") == "0\n"


def test_usage_and_packets_of_queues(switch: Switch) -> None:
    """Usage adds up to what the worker was busy; packets are those that went through."""
    bridge = unique_bridge()
    source, idle, sink = (f"{bridge}{end}" for end in ("s", "i", "k"))
    devices = {source: "net_null0,size=64", idle: "net_null1,no-rx=1", sink: "net_null2,no-rx=1"}
    switch.vsctl("add-br", bridge)
    switch.ofctl("del-flows", bridge)
    for number, (name, device) in enumerate(devices.items(), 1):
        switch.vsctl(
            *("add-port", bridge, name, "--", "set", "Interface", name, "type=dpdk"),
            *(f"ofport_request={number}", f"options:dpdk-devargs={device}"),
        )
    switch.ofctl("add-flow", bridge, "in_port=1,actions=output:3")

    def usage(name: str) -> int:
        shown = said(switch, "dpif-netdev/pmd-rxq-show")
        found = re.search(rf"^  port: {name} .*pmd usage: +(\d+) %", shown, re.M)
        assert found is not None, shown
        return int(found[1])

    assert switch.process is not None
    switch.process.wait_until(lambda: usage(source) > 0)
    assert usage(idle) == 0
    shown = said(switch, "dpif-netdev/pmd-rxq-show")
    assert shown.startswith("Displaying last 60 seconds pmd usage %\npmd thread "), shown
    assert 0 < sum(int(each) for each in re.findall(r"pmd usage: +(\d+) %", shown)) <= 101
    switch.ofctl("mod-port", bridge, "1", "no-receive")
    switch.vsctl("del-port", bridge, source)  # its last packets are counted now
    received = re.search(r"packets received: (\d+)", said(switch, "dpif-netdev/pmd-stats-show"))
    sent = re.search(r"tx pkts=(\d+)", switch.ofctl("dump-ports", bridge, "3"))
    (lsi,) = [each for each in switch.call("drops")["lsis"] if each["name"] == bridge]
    assert received is not None and sent is not None
    assert int(received[1]) == int(sent[1]) + sum(lsi["drops"].values())


def test_sets_the_log_level(switch: Switch) -> None:
    """As OVS's vlog/set; vlog/list shows it."""
    assert said(switch, "vlog/set", "ANY:console:dbg") == ""
    assert re.search(r"^any +DBG$", said(switch, "vlog/list"), re.M)
    said(switch, "vlog/set", "warn")
    assert re.search(r"^any +WARN$", said(switch, "vlog/list"), re.M)


def test_exit_ends_the_switch(switch: Switch) -> None:
    """`ovs-appctl exit` is how service scripts stop ovs-vswitchd."""
    assert switch.process is not None
    process = switch.process
    said(switch, "exit")
    switch.process = None  # the fixture has nothing to end any more
    end = time.monotonic() + 20
    while process.exit_code is None and time.monotonic() < end:
        time.sleep(0.01)
    assert process.exit_code == 0, process.log_tail()
