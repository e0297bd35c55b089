# SPDX-License-Identifier: Apache-2.0
"""DPDK's l3fwd as a peer."""

import json
import os
import re
import shutil
import socket
import time
from pathlib import Path

from headrace.bench.peers.cases.case import Case
from headrace.bench.peers.systems import Missing, System, run

L3FWD_SOURCE = Path("/usr/share/dpdk/examples/l3fwd")


class L3fwd(System):
    """DPDK's own l3fwd with LPM, built from the packaged example for this processor.

    Its limits on rules and extended tables are raised to hold the case's prefixes.
    """

    name = "l3fwd"

    def takes(self, case: Case) -> bool:
        """Routing cases only."""
        return case.routes is not None

    def build(self) -> Path:
        """Builds the example in the run directory."""
        if not L3FWD_SOURCE.exists():
            raise Missing("DPDK's l3fwd example is not installed (Debian package dpdk-doc)")
        folder = self.rundir / "l3fwd"
        if not folder.exists():
            # The example includes headers from the sibling folder `common`.
            shutil.copytree(L3FWD_SOURCE.parent / "common", self.rundir / "common")
            shutil.copytree(L3FWD_SOURCE, folder)
            main = folder / "main.c"
            # net_null offers no checksum offload, which l3fwd requests unconditionally.
            main.write_text(main.read_text().replace("= RTE_ETH_RX_OFFLOAD_CHECKSUM", "= 0"))
            source = folder / "l3fwd_lpm.c"
            text = source.read_text()
            text = re.sub(r"(IPV4_L3FWD_LPM_MAX_RULES\s+)\d+", r"\g<1>65536", text)
            text = re.sub(r"(IPV4_L3FWD_LPM_NUMBER_TBL8S\s+)\(1 << 8\)", r"\g<1>(1 << 14)", text)
            source.write_text(text)
            run("make", "-s", "-C", folder, "shared")
        return folder / "build" / "l3fwd"

    def load(self, case: Case) -> None:
        """Restarts l3fwd with the case's routes, which it reads only at its start."""
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
