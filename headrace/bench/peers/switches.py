# SPDX-License-Identifier: Apache-2.0
"""The compared switches Headrace and OVS-DPDK, and their common base."""

import os
import re
import time
from abc import abstractmethod
from pathlib import Path

from headrace.bench.peers import ovs_overlay
from headrace.bench.peers.cases.case import SINK, SOURCE, Case, Overlay
from headrace.bench.peers.frames import Bytes
from headrace.bench.peers.openflow import NORMAL, Session, meter_mod, packet_out
from headrace.bench.peers.systems import Missing, PeerError, Place, System, run

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
OVS_DPDK = Path("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
METER_KBPS = 100_000_000  # 100 Gbit/s: worked through, never reached
MAC_AGING_S = 3600  # the maximum of both: no entry expires during the measurement


class OpenVSwitchLike(System):
    """The base of Headrace and OVS: a stock ovsdb-server, ovs-vsctl and ovs-ofctl."""

    ports_out: tuple[int, ...] = (SINK,)  # of sinks and bystanders
    counts_arrivals = True  # by its own count, so less than the source's where packets are missing

    @abstractmethod
    def start(self) -> None:
        """Starts the database and the switch; Missing if that is not installed."""

    def start_database(self) -> None:
        """Starts this system's own ovsdb-server with the stock schema."""
        database = self.rundir / "conf.db"
        database.unlink(missing_ok=True)
        run("ovsdb-tool", "create", database, SCHEMA)
        self.socket = self.rundir / "db.sock"
        self.spawn(
            "ovsdb",
            "ovsdb-server",
            database,
            f"--remote=punix:{self.socket}",
            f"--unixctl={self.rundir}/ovsdb.ctl",
        )
        self.wait_for("ovsdb-server", self.socket)
        self.vsctl("--no-wait", "init")

    def vsctl(self, *words: str) -> str:
        """Runs ovs-vsctl on this system's database; PeerError with the daemon's log."""
        try:
            return run("ovs-vsctl", f"--db=unix:{self.socket}", "--timeout=30", *words)
        except PeerError as error:
            raise PeerError(f"{error}; {self.last_words()}") from error

    def ofctl(self, command: str, *words: str, stdin: str | None = None) -> str:
        """Runs ovs-ofctl on this system's bridge."""
        return self.ofctl_on("br0", command, *words, stdin=stdin)

    def ofctl_on(
        self,
        bridge: str,
        command: str,
        *words: str,
        stdin: str | None = None,
        version: str = "OpenFlow13",
    ) -> str:
        """Runs ovs-ofctl on one of this system's bridges."""
        target = f"unix:{self.rundir}/{bridge}.mgmt"
        return run("ovs-ofctl", "-O", version, command, target, *words, stdin=stdin)

    def tool(self, *command: str | Path) -> str:
        """Runs any other tool."""
        return run(*command)

    def load(self, case: Case) -> None:
        """Recreates the bridge with the case's source and rules."""
        self.ports_out = tuple(range(SINK, SINK + case.sinks + case.bystanders))
        self.vsctl("--if-exists", "del-br", "br0")
        self.vsctl("add-br", "br0", *self.bridge_options("br0"))
        self.prepare_tables(case)
        devices = {f"net_null_sink{n},no-rx=1": (f"sink{n}", n) for n in self.ports_out}
        devices[f"{case.device},size=60"] = ("source", SOURCE)
        for devargs, (port, number) in devices.items():
            self.vsctl(
                *("add-port", "br0", port, "--", "set", "Interface", port, "type=dpdk"),
                *(f"ofport_request={number}", f"options:dpdk-devargs={devargs}"),
            )
        self.ofctl("del-flows")
        with Session(self.rundir / "br0.mgmt") as session:
            session.send(b"".join(meter_mod(n, METER_KBPS) for n in range(1, case.meters + 1)))
            session.barrier()
        if case.groups is not None:
            self.ofctl("add-groups", "-", stdin="\n".join(case.groups()) + "\n")
        self.ofctl("add-flows", "-", stdin="\n".join(case.rules()) + "\n")
        if case.learned is not None:
            self._learn(case.learned())

    def prepare_tables(self, case: Case) -> None:
        """Configures the bridge's tables before rules are added."""
        if case.learned is not None:
            self.vsctl("set", "bridge", "br0", f"other_config:mac-aging-time={MAC_AGING_S}")

    def _learn(self, sent: Bytes) -> None:
        """Sends frames by NORMAL as if they came from the sink."""
        with Session(self.rundir / "br0.mgmt") as session:
            for some in range(0, len(sent), 256):
                frames = sent[some : some + 256]
                session.send(b"".join(packet_out(SINK, NORMAL, one.tobytes()) for one in frames))
                session.barrier()

    def bridge_options(self, bridge: str) -> tuple[str, ...]:
        """Additional settings for add-br."""
        return ("--", "set", "bridge", bridge, "fail_mode=secure")

    def source_bridge(self) -> str:
        """The bridge that the source is a port of."""
        return "br0"

    def sink_bridge(self) -> str:
        """The bridge that the sinks are ports of."""
        return "br0"

    def sent(self) -> int:
        """The sink port's transmitted packets, by OpenFlow port statistics."""
        with Session(self.rundir / f"{self.sink_bridge()}.mgmt") as session:
            return session.transmitted(SINK)

    def sent_by_each(self) -> list[int]:
        """Transmitted packets of every sink and bystander, in the order of their numbers."""
        with Session(self.rundir / f"{self.sink_bridge()}.mgmt") as session:
            return [session.transmitted(port) for port in self.ports_out]

    def received(self) -> int:
        """Packets that the source's port has received, by its own count."""
        with Session(self.rundir / f"{self.source_bridge()}.mgmt") as session:
            return session.port_packets(SOURCE)[0]


class OvsDpdk(OpenVSwitchLike):
    """Debian's OVS with DPDK."""

    name = "ovs-dpdk"
    eal_extra = ""  # further EAL arguments, each after a blank
    alone = False  # in a network namespace of its own: its bridges are devices of the kernel, too
    further_config: tuple[str, ...] = ()  # columns of Open_vSwitch, as ovs-vsctl sets them
    overlay: Overlay | None = None
    counts_arrivals = False  # its device counter includes packets that the source takes back

    def start(self) -> None:
        """Starts the database and the switch."""
        if not OVS_DPDK.exists():
            raise Missing("OVS-DPDK is not installed (Debian package openvswitch-switch-dpdk)")
        self.start_database()
        self.vsctl(
            *("--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true"),
            f"other_config:pmd-cpu-mask={1 << self.place.worker_core:#x}",
            "other_config:dpdk-lcore-mask=0x1",
            # Otherwise its mempool of 262144 buffers takes the memory that the others need.
            f"other_config:dpdk-socket-mem={self.place.memory_mb}",
            f"other_config:dpdk-socket-limit={self.place.memory_mb}",
            f"other_config:dpdk-extra=--no-pci -d {self.place.plugin}{self.eal_extra}",
            # Its flows must not time out while it is stopped and others are measured.
            "other_config:max-idle=600000",
            *self.further_config,
        )
        alone = ("unshare", "--net") if self.alone else ()
        control = f"--unixctl={self.rundir}/ovs.ctl"
        self.spawn("vswitchd", *alone, OVS_DPDK, f"unix:{self.socket}", control)
        self.wait_for("ovs-vswitchd", self.rundir / "ovs.ctl")

    def load(self, case: Case) -> None:
        """Recreates the bridge; for an overlay, with a bridge below it."""
        ovs_overlay.remove(self)
        self.overlay = case.overlay
        if case.overlay is None:
            super().load(case)
        else:
            self.ports_out = (SINK,)
            ovs_overlay.load(self, case, case.overlay)

    def prepare_tables(self, case: Case) -> None:
        """Sets the MAC table's size, and prefix tracking for IPv6, which is off by default."""
        super().prepare_tables(case)
        if case.learned is not None:
            self.vsctl("set", "bridge", "br0", "other_config:mac-table-size=65536")
        for table in case.ipv6_tables:
            self.vsctl(
                *("set", "bridge", "br0", f"flow_tables:{table}=@t", "--", "--id=@t"),
                *("create", "Flow_Table", "prefixes=ipv6_dst,ipv6_src"),
            )

    def stop(self) -> None:
        """Terminates it, and removes interfaces that it would leave behind."""
        super().stop()
        ovs_overlay.clean_up()

    def source_bridge(self) -> str:
        """For an overlay possibly the bridge below."""
        return "br0" if self.overlay is None else ovs_overlay.source_bridge(self.overlay)

    def sink_bridge(self) -> str:
        """For an overlay possibly the bridge below."""
        return "br0" if self.overlay is None else ovs_overlay.sink_bridge(self.overlay)

    def bridge_options(self, bridge: str) -> tuple[str, ...]:
        """Selects the userspace datapath."""
        return ("--", "set", "bridge", bridge, "datapath_type=netdev", "fail_mode=secure")

    def fill(self, seconds: float) -> None:
        """Waits until the number of datapath flows grows by less than 1 % per second."""
        deadline = time.monotonic() + seconds
        before, flows = -1, 0
        while flows > 1.01 * before and time.monotonic() < deadline:
            before = flows
            time.sleep(1.0)
            told = run("ovs-appctl", "-t", self.rundir / "ovs.ctl", "upcall/show")
            flows = sum(int(found) for found in re.findall(r"\(current (\d+)\)", told))

    def settings(self) -> list[str]:
        """The cache settings; Debian's build lacks the AVX512 look-up."""
        caches = ["emc 1/100", "emc off", "emc off, smc", "emc 1/100, smc"]
        if self.overlay is None or not self.overlay.groups:
            return caches
        return [f"{cache}; {groups}" for groups in self.overlay.groups for cache in caches]

    def apply(self, setting: str) -> None:
        """Sets the exact-match and signature-match caches, and the kind of groups."""
        cache, _, groups = setting.partition("; ")
        emc = "100" if "1/100" in cache else "0"
        smc = "true" if "smc" in cache else "false"
        self.vsctl(
            *("set", "Open_vSwitch", ".", f"other_config:emc-insert-inv-prob={emc}"),
            f"other_config:smc-enable={smc}",
        )
        if self.overlay is not None and groups:
            ovs_overlay.select(self, self.overlay, groups)


class Headrace(OpenVSwitchLike):
    """headrace-switch; several builds of it have different names."""

    def __init__(
        self, place: Place, program: Path, *, name: str = "headrace", simd: str = "auto"
    ) -> None:
        """`program` is the headrace-switch binary, `simd` the value of its --simd."""
        self.name = name
        super().__init__(place)
        self.program = program
        self.simd = simd

    def start(self) -> None:
        """Starts the database and the switch."""
        self.start_database()
        control = self.rundir / "headrace-switch.ctl"
        self.spawn(
            "switch",
            self.program,
            *("--db", f"unix:{self.socket}", "--rundir", self.rundir, "--ctl", control),
            *("--cpu-mask", f"{1 << self.place.worker_core:#x}", "--simd", self.simd),
            *("--mem", str(self.place.memory_mb)),
            *("--file-prefix", f"peers-{os.getpid()}-{self.name}"),
            *("--eal-arg", "-d", "--eal-arg", self.place.plugin),
        )
        self.wait_for("headrace-switch", control)
