# SPDX-License-Identifier: Apache-2.0
"""The systems that are compared, each as one process that can be parked and resumed.

All take their EAL from the same flags, poll with one worker on `worker_core` and keep their other
threads on core 0.
"""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path

from headrace.bench.peers import ovs_overlay
from headrace.bench.peers.cases import SINK, SOURCE, Case, Overlay
from headrace.bench.peers.openflow import Session, meter_mod
from headrace.machine.processes import UNTIL_PARENT_ENDS

SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
OVS_DPDK = Path("/usr/lib/openvswitch-switch-dpdk/ovs-vswitchd-dpdk")
METER_KBPS = 100_000_000  # 100 Gbit/s: worked through, never reached
L3FWD_SOURCE = Path("/usr/share/dpdk/examples/l3fwd")


class PeerError(Exception):
    """A system could not be started, set up or read."""


class Missing(PeerError):
    """What a system needs is not on this machine: its rows are skipped with this reason."""


@dataclass(frozen=True)
class Place:
    """Where and with what the systems run."""

    rundir: Path
    flow_dir: Path
    plugin: Path
    worker_core: int
    memory_mb: int


def run(*command: str | Path, stdin: str | None = None) -> str:
    """Runs a tool to its end; its output. PeerError with its words if it fails."""
    words = [str(word) for word in command]
    try:
        done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=180)  # noqa: S603
    except subprocess.TimeoutExpired as late:
        raise PeerError(f"{' '.join(words)[:200]}: no end after {late.timeout:.0f} s") from late
    if done.returncode != 0:
        raise PeerError(f"{' '.join(words)[:200]}: {done.stderr.strip()[-600:]}")
    return done.stdout


class System(ABC):
    """One system under comparison."""

    name: str

    def __init__(self, place: Place) -> None:
        """Remembers the place; nothing is started."""
        self.place = place
        self.rundir = place.rundir / self.name
        self.rundir.mkdir(parents=True, exist_ok=True)
        self.children: list[subprocess.Popen[bytes]] = []

    def spawn(self, name: str, *command: str | Path) -> subprocess.Popen[bytes]:
        """Starts a child with its output in `<rundir>/<name>.log`; ended by stop(), or with us."""
        environment = dict(
            os.environ,
            HEADRACE_FLOW_DIR=str(self.place.flow_dir),
            OVS_RUNDIR=str(self.rundir),
            OVS_LOGDIR=str(self.rundir),
            OVS_DBDIR=str(self.rundir),
            OVS_SYSCONFDIR=str(self.rundir),
        )
        with (self.rundir / f"{name}.log").open("wb") as log:
            child = subprocess.Popen(  # noqa: S603
                [*UNTIL_PARENT_ENDS, *(str(word) for word in command)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )
        self.children.append(child)
        return child

    def wait_for(self, what: str, path: Path, seconds: float = 15.0) -> None:
        """Waits until a socket appears; PeerError with the last log lines if a child ends."""
        deadline = time.monotonic() + seconds
        while not path.exists():
            ended = [child for child in self.children if child.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise PeerError(f"{self.name}: {what} did not come up; {self.last_words()}")
            time.sleep(0.02)

    def last_words(self) -> str:
        """The ends of the logs, for error messages."""
        logs = sorted(self.rundir.glob("*.log"))
        return " | ".join(f"{log.name}: {log.read_text(errors='replace')[-300:]}" for log in logs)

    def park(self) -> None:
        """Stops the polling process, so that it leaves the core to the others."""
        self.polling().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Lets the polling process go on."""
        self.polling().send_signal(signal.SIGCONT)

    def polling(self) -> subprocess.Popen[bytes]:
        """The process that polls the core."""
        return self.children[-1]

    def stop(self) -> None:
        """Ends every child, the last started first."""
        for child in reversed(self.children):
            child.send_signal(signal.SIGCONT)
            child.terminate()
            try:
                child.wait(10)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
        self.children.clear()

    @abstractmethod
    def load(self, case: Case) -> None:
        """Sets the case up: its source, sink and rules."""

    @abstractmethod
    def sent(self) -> int:
        """Packets that reached the sink so far."""

    def takes(self, case: Case) -> bool:
        """Whether the case is of a kind that this system is made for."""
        return True

    def settings(self) -> list[str]:
        """The settings among which the best is looked for; one unnamed where there is no choice."""
        return [""]

    def apply(self, setting: str) -> None:
        """Applies one of settings(); without a choice there is nothing to apply."""
        if setting:
            raise PeerError(f"{self.name} has no setting {setting!r}")


class OpenVSwitchLike(System):
    """What Headrace and OVS share: a stock ovsdb-server, ovs-vsctl and ovs-ofctl."""

    counts_arrivals = True  # by its own count, so less than the source's where packets are missing

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
        """Runs ovs-vsctl on this system's database; PeerError with the daemon's last words too."""
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
        """Makes the bridge anew with the case's source and rules."""
        self.vsctl("--if-exists", "del-br", "br0")
        self.vsctl("add-br", "br0", *self.bridge_options("br0"))
        for port, number, devargs in (
            ("source", SOURCE, f"{case.device},size=60"),
            ("sink", SINK, "net_null_sink,no-rx=1"),
        ):
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

    def bridge_options(self, bridge: str) -> tuple[str, ...]:
        """What add-br is to set besides."""
        return ("--", "set", "bridge", bridge, "fail_mode=secure")

    def sent(self) -> int:
        """The sink port's transmitted packets, by OpenFlow port statistics."""
        with Session(self.rundir / "br0.mgmt") as session:
            return session.transmitted(SINK)


class OvsDpdk(OpenVSwitchLike):
    """Debian's OVS with DPDK."""

    name = "ovs-dpdk"
    overlay: Overlay | None = None
    counts_arrivals = False  # by the device's: net_null counts also what the source takes back

    def start(self) -> None:
        """Starts the database and the switch."""
        if not OVS_DPDK.exists():
            raise Missing("OVS-DPDK is not installed (Debian package openvswitch-switch-dpdk)")
        self.start_database()
        self.vsctl(
            *("--no-wait", "set", "Open_vSwitch", ".", "other_config:dpdk-init=true"),
            f"other_config:pmd-cpu-mask={1 << self.place.worker_core:#x}",
            "other_config:dpdk-lcore-mask=0x1",
            # Else its mempool for 262144 buffers takes what the others need.
            f"other_config:dpdk-socket-mem={self.place.memory_mb}",
            f"other_config:dpdk-socket-limit={self.place.memory_mb}",
            f"other_config:dpdk-extra=--no-pci -d {self.place.plugin}",
            # Its flows must not time out while it is parked and others are measured.
            "other_config:max-idle=600000",
        )
        self.spawn("vswitchd", OVS_DPDK, f"unix:{self.socket}", f"--unixctl={self.rundir}/ovs.ctl")
        self.wait_for("ovs-vswitchd", self.rundir / "ovs.ctl")

    def load(self, case: Case) -> None:
        """Makes the bridge anew; for an overlay, with a bridge below it."""
        ovs_overlay.remove(self)
        self.overlay = case.overlay
        if case.overlay is None:
            super().load(case)
        else:
            ovs_overlay.load(self, case, case.overlay)

    def stop(self) -> None:
        """Ends it, with the interfaces that it would leave to its next start."""
        super().stop()
        ovs_overlay.clean_up()

    def sent(self) -> int:
        """The sink port's transmitted packets, by OpenFlow port statistics."""
        bridge = "br0" if self.overlay is None else ovs_overlay.sink_bridge(self.overlay)
        with Session(self.rundir / f"{bridge}.mgmt") as session:
            return session.transmitted(SINK)

    def bridge_options(self, bridge: str) -> tuple[str, ...]:
        """OVS wants to be told that the bridge is a userspace one."""
        return ("--", "set", "bridge", bridge, "datapath_type=netdev", "fail_mode=secure")

    def settings(self) -> list[str]:
        """The cache settings; Debian's build has no AVX512 look-up to choose."""
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
    """headrace-switch."""

    name = "headrace"

    def __init__(self, place: Place, program: Path) -> None:
        """`program` is the headrace-switch binary."""
        super().__init__(place)
        self.program = program

    def start(self) -> None:
        """Starts the database and the switch."""
        self.start_database()
        control = self.rundir / "headrace-switch.ctl"
        self.spawn(
            "switch",
            self.program,
            *("--db", f"unix:{self.socket}", "--rundir", self.rundir, "--ctl", control),
            *("--cpu-mask", f"{1 << self.place.worker_core:#x}"),
            *("--mem", str(self.place.memory_mb), "--file-prefix", f"peers-{os.getpid()}"),
            *("--eal-arg", "-d", "--eal-arg", self.place.plugin),
        )
        self.wait_for("headrace-switch", control)


class L3fwd(System):
    """DPDK's own l3fwd with LPM, built from the packaged example for this processor.

    Its limits on rules and extended tables are raised to hold the case's prefixes.
    """

    name = "l3fwd"

    def takes(self, case: Case) -> bool:
        """It routes, and nothing else."""
        return case.routes is not None

    def build(self) -> Path:
        """Builds the example in the run directory."""
        if not L3FWD_SOURCE.exists():
            raise Missing("DPDK's l3fwd example is not installed (Debian package dpdk-doc)")
        folder = self.rundir / "l3fwd"
        if not folder.exists():
            # The example includes headers from its neighbor `common`.
            shutil.copytree(L3FWD_SOURCE.parent / "common", self.rundir / "common")
            shutil.copytree(L3FWD_SOURCE, folder)
            main = folder / "main.c"
            # net_null offers no checksum offload, and l3fwd insists on asking for it.
            main.write_text(main.read_text().replace("= RTE_ETH_RX_OFFLOAD_CHECKSUM", "= 0"))
            source = folder / "l3fwd_lpm.c"
            text = source.read_text()
            text = re.sub(r"(IPV4_L3FWD_LPM_MAX_RULES\s+)\d+", r"\g<1>65536", text)
            text = re.sub(r"(IPV4_L3FWD_LPM_NUMBER_TBL8S\s+)\(1 << 8\)", r"\g<1>(1 << 14)", text)
            source.write_text(text)
            run("make", "-s", "-C", folder, "shared")
        return folder / "build" / "l3fwd"

    def load(self, case: Case) -> None:
        """Starts l3fwd anew with the case's routes: it reads them only at its start."""
        assert case.routes is not None
        self.stop()
        rules = self.rundir / "ipv4.rules"
        # Port 1 of l3fwd is the sink.
        rules.write_text("".join(f"R{route.network} 1\n" for route in case.routes()))
        ipv6 = self.rundir / "ipv6.rules"
        ipv6.write_text("Rfd00:0:0:0:0:0:0:0/16 1\n")
        prefix = f"peers-l3fwd-{os.getpid()}"
        self.telemetry = Path(f"/var/run/dpdk/{prefix}/dpdk_telemetry.v2")
        core = self.place.worker_core
        self.spawn(
            "l3fwd",
            self.build(),
            *("-l", str(core), "--no-pci", "--in-memory", "--file-prefix", prefix),
            *("-m", str(self.place.memory_mb), "-d", self.place.plugin),
            *("--vdev", f"{case.device},size=60"),
            *("--vdev", "net_null_sink,no-rx=1", "--"),
            *("-p", "0x3", "-P", f"--config=(0,0,{core}),(1,0,{core})", "--lookup=lpm"),
            *(f"--rule_ipv4={rules}", f"--rule_ipv6={ipv6}", "--parse-ptype"),
        )
        self.wait_for("l3fwd", self.telemetry)
        time.sleep(1.0)

    def sent(self) -> int:
        """The sink device's transmitted packets, by DPDK telemetry."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
            connection.settimeout(5)
            connection.connect(str(self.telemetry))
            connection.recv(65536)
            connection.send(b"/ethdev/stats,1")
            reply = json.loads(connection.recv(65536))
        return int(reply["/ethdev/stats"]["opackets"])
