# SPDX-License-Identifier: Apache-2.0
"""headrace-vnf end to end: packets from and to pcap files, the control socket, signals."""

import json
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.bench.vnfs.cases import CASES
from headrace.node import templates

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = Path(os.environ.get("HEADRACE_BUILD", ROOT / "build" / "dataplane" / "apps"))
PROGRAM = PROGRAMS / "headrace-vnf"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason=f"{PROGRAM} is not built")

FRAME = bytes.fromhex("020000000001 020000000002 0800") + bytes(46)
SWAPPED = bytes.fromhex("020000000002 020000000001 0800") + bytes(46)


def write_pcap(path: Path, frames: list[bytes]) -> None:
    """A pcap file (the classic format, Ethernet) with these frames."""
    records = [struct.pack("<IIII", 0, 0, len(frame), len(frame)) + frame for frame in frames]
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, 1) + b"".join(records))


def read_pcap(path: Path) -> list[bytes]:
    """The frames of a pcap file, complete ones only."""
    data = path.read_bytes() if path.exists() else b""
    frames = []
    offset = 24
    while offset + 16 <= len(data):
        size = struct.unpack_from("<I", data, offset + 8)[0]
        if offset + 16 + size > len(data):
            break
        frames.append(data[offset + 16 : offset + 16 + size])
        offset += 16 + size
    return frames


def eventually(condition: Callable[[], bool], seconds: float = 10) -> bool:
    """Whether the condition becomes true in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


class Vnf:
    """A running headrace-vnf in a directory of its own."""

    def __init__(self, directory: Path, function: str, ports: list[dict[str, str]]) -> None:
        self.directory = directory
        self.config = directory / "vnf.json"
        self.ctl = directory / "vnf.ctl"
        self.ports = ports
        self.configure({})
        self.start(function)

    def start(self, function: str) -> None:
        """Runs it with the configuration that was written last."""
        self.process = subprocess.Popen(
            [PROGRAM, function, "--config", self.config, "--ctl", self.ctl],
            stderr=subprocess.PIPE,
            text=True,
        )
        assert eventually(self.ctl.exists)

    def configure(self, function: dict[str, Any]) -> None:
        """Writes the configuration file."""
        config = {
            "eal": {"hugepages": "off", "memory_mb": 64},
            "cpu": min(os.sched_getaffinity(0)),
            "ports": self.ports,
            "function": function,
        }
        self.config.write_text(json.dumps(config))

    def ask(self, method: str) -> dict[str, Any]:
        """One request on the control socket; the whole reply."""
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.ctl))
            connection.sendall(json.dumps({"id": 1, "method": method}).encode() + b"\n")
            reply: dict[str, Any] = json.loads(connection.makefile().readline())
        return reply

    def is_ready(self) -> bool:
        """Whether the function runs."""
        return "result" in self.ask("cycles")

    def end(self) -> None:
        """Ends it, by force if need be."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            self.process.communicate(timeout=10)
        finally:
            self.process.kill()


@pytest.fixture
def vnf(tmp_path: Path) -> Iterator[Vnf]:
    """`pass` between two ports that read nothing; what leaves port 1 is in out.pcap."""
    write_pcap(tmp_path / "in.pcap", [FRAME] * 100)
    write_pcap(tmp_path / "none.pcap", [])
    ports = [
        {"name": "a", "devargs": f"net_pcap0,rx_pcap={tmp_path}/in.pcap"},
        {"name": "b", "devargs": f"net_pcap1,rx_pcap={tmp_path}/none.pcap,tx_pcap={tmp_path}/out"},
    ]
    running = Vnf(tmp_path, "pass", ports)
    yield running
    running.end()


def test_forwards_every_packet_and_counts_it(vnf: Vnf) -> None:
    assert eventually(vnf.is_ready)
    assert eventually(lambda: vnf.ask("counters")["result"]["ports"]["b"]["tx_packets"] == 100)
    counters = vnf.ask("counters")["result"]
    assert counters["ports"]["a"]["rx_packets"] == 100
    assert counters["ports"]["a"]["rx_bytes"] == 100 * len(FRAME)
    assert counters["drops"] == {}
    cycles = vnf.ask("cycles")["result"]
    assert cycles["packets"] == 100
    assert cycles["busy_cycles"] > 0
    assert cycles["idle_cycles"] > 0
    vnf.end()
    assert read_pcap(vnf.directory / "out") == [FRAME] * 100


def test_a_reload_takes_a_good_configuration_and_refuses_a_bad_one(vnf: Vnf) -> None:
    assert eventually(vnf.is_ready)
    vnf.configure({"mac": "mix"})
    error = vnf.ask("reload")["error"]
    assert 'function.mac: "mix" is none of keep, swap, set' in error["message"]
    vnf.configure({"mac": "swap"})
    assert vnf.ask("reload")["result"] == {"reloaded": True}
    vnf.ports[0]["name"] = "renamed"
    vnf.configure({})
    assert "can't change while running" in vnf.ask("reload")["error"]["message"]


def test_shutdown_ends_it_cleanly(vnf: Vnf) -> None:
    assert vnf.ask("ping")["result"]["program"] == "headrace-vnf"
    assert "result" in vnf.ask("shutdown")
    assert vnf.process.wait(timeout=10) == 0
    assert not vnf.ctl.exists()


def test_sigterm_ends_it_while_a_port_waits_for_its_peer(tmp_path: Path) -> None:
    ports = [
        {"name": str(i), "devargs": f"net_virtio_user{i},path={tmp_path}/{i}.sock,server=1"}
        for i in range(2)
    ]
    vnf = Vnf(tmp_path, "pass", ports)
    try:
        assert eventually((tmp_path / "0.sock").exists)
        assert "not ready" in vnf.ask("counters")["error"]["message"]
        vnf.process.send_signal(signal.SIGTERM)
        assert vnf.process.wait(timeout=10) == 0
    finally:
        vnf.end()


def test_check_lists_every_mistake(tmp_path: Path) -> None:
    config = tmp_path / "bad.json"
    ports = '[{"name": "a"}, {"name": "b", "shm": {"port": "p"}}, {"name": "c"}]'
    config.write_text(f'{{"cpu": -1, "ports": {ports}, "function": {{"mac": 3}}}}')
    command: list[str | Path] = [PROGRAM, "pass", "--config", config, "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1
    for part in (
        "cpu: -1",
        "ports[0].devargs",
        "ports[1].shm.socket",
        "function.pairs: missing",
        "function.mac: 3",
    ):
        assert part in done.stderr
    config.write_text('{"ports": [{"name": "a", "devargs": "net_null0"}], "function": {')
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1
    assert "line 1" in done.stderr


def test_reads_yaml_and_tells_the_place_of_its_mistakes(tmp_path: Path) -> None:
    config = tmp_path / "vnf.yaml"
    command: list[str | Path] = [PROGRAM, "pass", "--config", config, "--check"]
    config.write_text(
        "ports:\n  - {name: a, devargs: net_null0}\n  - {name: b, devargs: net_null1}\n"
        "function: {mac: swap}\n"
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 0, done.stderr
    config.write_text("cpu: 0\nports: [a\ncpu: 1\n")
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 1
    assert f"{config}: line " in done.stderr
    config.write_text("cpu: zero\nports: []\n")
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert 'cpu: "zero" is not an integer' in done.stderr


def test_loses_nothing_while_it_reloads_under_traffic(tmp_path: Path) -> None:
    ports = [
        {"name": "a", "devargs": "net_null0,size=60"},
        {"name": "b", "devargs": "net_null1,no-rx=1"},
    ]
    vnf = Vnf(tmp_path, "pass", ports)
    try:
        assert eventually(vnf.is_ready)
        before = vnf.ask("counters")["result"]["ports"]["b"]["tx_packets"]
        for number in range(20):
            vnf.configure({"mac": ("keep", "swap")[number % 2]})
            assert vnf.ask("reload")["result"] == {"reloaded": True}
        counters = vnf.ask("counters")["result"]
        assert counters["drops"] == {}
        received = counters["ports"]["a"]["rx_packets"]
        sent = counters["ports"]["b"]["tx_packets"]
        assert sent > before
        # The worker may be within a round: between taking a burst and sending it.
        assert 0 <= received - sent <= 64
    finally:
        vnf.end()


def test_sleeps_when_idle_if_told(tmp_path: Path) -> None:
    vnf = Vnf(tmp_path, "sink", [{"name": "a", "devargs": "net_null0,no-rx=1"}])
    vnf.end()
    config = json.loads(vnf.config.read_text()) | {"idle": "sleep", "sleep_us": 1000}
    vnf.config.write_text(json.dumps(config))
    vnf.start("sink")
    try:
        assert eventually(lambda: vnf.ctl.exists() and vnf.is_ready())

        def slept() -> bool:
            cycles = vnf.ask("cycles")["result"]
            rested: int = cycles["yielded_cycles"]
            worked: int = cycles["idle_cycles"] + cycles["busy_cycles"]
            return rested > 10 * worked > 0

        assert eventually(slept)
    finally:
        vnf.end()


@pytest.mark.parametrize("burst", [1, 7, 32, 64])
def test_a_poll_takes_a_burst(tmp_path: Path, burst: int) -> None:
    vnf = Vnf(tmp_path, "sink", [{"name": "a", "devargs": "net_null0,size=60"}])
    vnf.end()
    vnf.config.write_text(json.dumps(json.loads(vnf.config.read_text()) | {"burst": burst}))
    vnf.start("sink")
    try:
        assert eventually(lambda: vnf.ctl.exists() and vnf.is_ready())
        assert eventually(lambda: int(vnf.ask("cycles")["result"]["polls"]) > 100)
        cycles = vnf.ask("cycles")["result"]
        # net_null fills every burst. The counters are read while the worker runs.
        assert abs(cycles["packets"] / burst / cycles["polls"] - 1) < 0.1
    finally:
        vnf.end()


def test_every_function_has_a_template_and_a_case_of_the_bench() -> None:
    text = subprocess.run([PROGRAM, "--help"], capture_output=True, text=True, timeout=20).stdout
    listed = text[text.index("Functions:") :].splitlines()[1:]
    functions = {line.split()[0] for line in listed if line.startswith("  ")}
    assert {"pass", "basestation", "dpi"} <= functions
    assert functions == {case.function for case in CASES}
    made = {one.function for one in templates.load([]).all() if one.engine == "process"}
    assert made == functions - {"source", "sink"}
