# SPDX-License-Identifier: Apache-2.0
"""A switch with streams through it, by one worker or several, chosen while it runs."""

import time
from pathlib import Path

import numpy as np

from headrace.bench.peers import frames
from headrace.bench.peers.openflow import Session, meter_mod
from headrace.bench.peers.switches import METER_KBPS, Headrace, OvsDpdk
from headrace.bench.peers.systems import Place
from headrace.bench.workers.cases import METER, Case, sink, source, vhost, virtio

FLOWS = 64  # of each stream
BRIDGE = "br0"


def device(stream: int) -> str:
    """The source device of a stream; its frames file is named after it."""
    return f"net_null_stream{stream}"


def write_frames(folder: Path, streams: int) -> None:
    """What the sources serve: 64-byte frames, each stream from addresses of its own."""
    for stream in range(streams):
        made = frames.udp_frames(
            eth_dst=frames.mac("02:00:00:00:00:01"),
            eth_src=frames.mac(f"02:00:00:00:01:{stream:02x}"),
            ipv4_src=np.full(FLOWS, 0xC0A80001 + stream, dtype=np.uint32),
            ipv4_dst=(0x0A000000 + (stream << 16) + np.arange(FLOWS)).astype(np.uint32),
        )
        frames.write(folder / f"{device(stream)}.frames", made)


class OvsForVirtioUser(OvsDpdk):
    """OVS-DPDK whose memory is few files, as virtio-user must pass it to its peer."""

    eal_extra = " --single-file-segments"


class Bed:
    """One switch of the comparison with its ports; one of the others' windows at a time."""

    def __init__(self, system: Headrace | OvsDpdk, streams: int) -> None:
        """Nothing is started."""
        self.system = system
        self.streams = streams
        self._case: Case | None = None

    @property
    def name(self) -> str:
        """The switch's."""
        return self.system.name

    def start(self) -> None:
        """Starts the switch."""
        self.system.start()

    def load(self, case: Case) -> None:
        """Makes the bridge anew with the case's ports and rules."""
        system = self.system
        system.resume()
        self._case = case
        system.vsctl("--if-exists", "del-br", BRIDGE)
        system.vsctl("add-br", BRIDGE, *system.bridge_options(BRIDGE))
        for n in range(self.streams):
            self._add(f"source{n}", source(n), "dpdk", f"dpdk-devargs={device(n)},size=60")
            if n == 0 or not case.one_sink:
                self._add(f"sink{n}", sink(n), "dpdk", f"dpdk-devargs=net_null_sink{n},no-rx=1")
            if not case.by_vhost:
                continue
            # The switch listens at a socket named like the port, and is its own guest there.
            self._add(f"vhost{n}", vhost(n), "dpdkvhostuser")
            path = system.rundir / f"vhost{n}"
            guest = f"net_virtio_user{n},path={path},queue_size=1024"
            self._add(f"virtio{n}", virtio(n), "dpdk", f"dpdk-devargs={guest}")
        system.ofctl("del-flows")
        if case.metered:
            with Session(system.rundir / f"{BRIDGE}.mgmt") as session:
                session.send(meter_mod(METER, METER_KBPS))
                session.barrier()
        system.ofctl("add-flows", "-", stdin="\n".join(case.rules(self.streams)) + "\n")

    def _add(self, name: str, number: int, kind: str, *options: str) -> None:
        self.system.vsctl(
            *("add-port", BRIDGE, name, "--", "set", "Interface", name, f"type={kind}"),
            f"ofport_request={number}",
            *(f"options:{option}" for option in options),
        )

    def use(self, cpus: list[int]) -> None:
        """Runs one worker on each of `cpus`, and deals the streams over them in turn."""
        mask = sum(1 << cpu for cpu in cpus)
        words = ["set", "Open_vSwitch", ".", f"other_config:pmd-cpu-mask={mask:#x}"]
        assert self._case is not None
        ports = ("source", "virtio", "vhost") if self._case.by_vhost else ("source",)
        for n in range(self.streams):
            for port in ports:
                affinity = f'other_config:pmd-rxq-affinity="0:{cpus[n % len(cpus)]}"'
                words += ["--", "set", "Interface", f"{port}{n}", affinity]
        self.system.vsctl(*words)

    def sent(self) -> int:
        """Packets that all sinks got so far."""
        assert self._case is not None
        sinks = 1 if self._case.one_sink else self.streams
        with Session(self.system.rundir / f"{BRIDGE}.mgmt") as session:
            return sum(session.transmitted(sink(n)) for n in range(sinks))

    def reading(self) -> tuple[int, float]:
        """sent() and when: the middle of the request."""
        before = time.monotonic()
        sent = self.sent()
        return sent, (before + time.monotonic()) / 2

    def window(self, cpus: list[int], settle_s: float, window_s: float) -> float:
        """Packets per second with one worker on each of `cpus`; parked before and after."""
        self.system.resume()
        self.use(cpus)
        time.sleep(settle_s)
        first, start = self.reading()
        time.sleep(window_s)
        last, end = self.reading()
        self.system.park()
        return (last - first) / (end - start)


def together(beds: list[Bed], settle_s: float, window_s: float) -> float:
    """Packets per second of several switches that run at once, each as it was set last."""
    for bed in beds:
        bed.system.resume()
    time.sleep(settle_s)
    before = [bed.reading() for bed in beds]
    time.sleep(window_s)
    after = [bed.reading() for bed in beds]
    for bed in beds:
        bed.system.park()
    return sum(
        (last - first) / (end - start)
        for (first, start), (last, end) in zip(before, after, strict=True)
    )


def side_by_side(where: Place, program: Path, cpus: list[int]) -> list[Bed]:
    """A Headrace with one worker and one stream on each CPU; not started."""
    return [
        Bed(
            Headrace(
                Place(where.rundir, where.flow_dir, where.plugin, cpu, where.memory_mb // 2),
                program,
                name=f"alone-{cpu}",
            ),
            streams=1,
        )
        for cpu in cpus
    ]
