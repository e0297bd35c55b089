# SPDX-License-Identifier: Apache-2.0
"""The pieces that meet the node and the generator, against a node of a few lines."""

import asyncio
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from headrace.bench.attached import AttachedDevice, Stand, trial_of
from headrace.bench.core_plan import plan_cores
from headrace.bench.device import TrialRequest
from headrace.bench.errors import DeviceError
from headrace.bench.events import switch_process
from headrace.bench.evidence import Reading
from headrace.bench.node_client import Cycles, NodeClient
from headrace.bench.node_process import free_port, node_config, run_folder
from headrace.bench.owned import end_owned
from headrace.bench.priority import raise_owned
from headrace.bench.subject import Subject
from headrace.bench.testbed import DISTANCE_S, Testbed
from headrace.bench.waiting import waited_ns, worker_threads
from headrace.machine.autogroup import own_nice, set_nice
from headrace.results import Case
from headrace.results.limiter import Verdict
from headrace.traffic import TrafficError, TrialResult

SUBJECT = Subject(switch="headrace", ports="memif")
PLAN = plan_cores([0, 1])
CASE = Case("s", "chain", 2, "gather", "headrace", "memif", "memif", "pass", "process", "64", 9)


class FakeNode:
    """A node as httpx sees it: it deploys in two steps, and every reading costs 1000 cycles."""

    def __init__(self) -> None:
        self.graphs: dict[str, Any] = {}
        self.paused: list[bool] = []
        self.status_calls = 0
        self.cycles = 0
        self.vnf_refusals = 2

    def __call__(self, request: httpx.Request) -> httpx.Response:
        path, method = request.url.path, request.method
        if path == "/node/switch/cycles":
            self.cycles += 1000
            worker = {"core": 1, "busy_cycles": self.cycles, "idle_cycles": 5, "packets": 7}
            return httpx.Response(200, json={"tsc_hz": 2e9, "workers": [worker], "source": "x"})
        if path == "/node/switch/ports":
            row = {"lsi": "LSI-0", "port": "in0", "rx_packets": 5, "tx_packets": 5}
            return httpx.Response(200, json=[{**row, "tx_dropped": 0}])
        if path.startswith("/node/vnfs/"):
            self.vnf_refusals -= 1
            if self.vnf_refusals >= 0:
                return httpx.Response(500, json={"message": "the ports are still being opened"})
            return httpx.Response(200, json={"busy_cycles": 10})
        if path == "/node/paused":
            self.paused.append(json.loads(request.content)["paused"])
            return httpx.Response(200, json={})
        if path.startswith("/NF-FG/status/"):
            self.status_calls += 1
            done = self.status_calls > 2
            return httpx.Response(200, json={"status": "complete" if done else "in_progress"})
        if path.startswith("/NF-FG/") and method == "PUT":
            graph = json.loads(request.content)
            if not graph:
                return httpx.Response(400, json={"module": "nffg", "message": "no graph in it"})
            self.graphs[path] = graph
            return httpx.Response(201)
        if path.startswith("/NF-FG/") and method == "DELETE":
            del self.graphs[path]
            return httpx.Response(204)
        if path == "/node/ports":
            rows = [{"name": "in0", "kind": "memif", "ofport": 1, "attach": {"devargs": "d{n}"}}]
            return httpx.Response(200, json=rows)
        return httpx.Response(404, text="nothing here")


@pytest.fixture
def fake() -> FakeNode:
    return FakeNode()


def client_of(fake: FakeNode) -> NodeClient:
    return NodeClient("http://node", httpx.MockTransport(fake))


async def test_a_graph_is_deployed_waited_for_and_deleted(fake: FakeNode) -> None:
    async with client_of(fake) as client:
        await client.deploy("g", {"forwarding-graph": {}})
        assert fake.status_calls == 3 and "/NF-FG/g" in fake.graphs
        await client.wait_forwarding("g", ["vnf0"], timeout_s=5)
        assert fake.vnf_refusals == -1
        await client.delete("g")
        assert not fake.graphs
        assert (await client.ports())[0].attach.devargs == "d{n}"
        await client.pause(True)
        assert fake.paused == [True]


async def test_refusals_carry_the_nodes_own_words(fake: FakeNode) -> None:
    async with client_of(fake) as client:
        with pytest.raises(DeviceError, match=r"PUT /NF-FG/g: 400 no graph in it"):
            await client.deploy("g", {})
        with pytest.raises(DeviceError, match="404 nothing here"):
            await client.info()
        fake.vnf_refusals = 10**6
        with pytest.raises(DeviceError, match="still being opened"):
            await client.wait_forwarding("g", ["vnf0"], timeout_s=0.1)


async def test_a_node_that_is_not_there_is_an_error_in_time() -> None:
    async with NodeClient(f"http://127.0.0.1:{free_port()}") as client:
        with pytest.raises(DeviceError, match="GET /node"):
            await client.wait_up(0.2)


def answer(sent: int = 1000, lost: int = 10, unsent: int = 0) -> TrialResult:
    latency = {"count": 990, "min": 1.0, "mean": 2.0, "p50": 2.0, "p90": 3.0, "p99": 4.0,
               "p99_9": 5.0, "max": 6.0}  # fmt: skip
    return TrialResult.model_validate(
        {"intended": sent + unsent, "sent": sent, "unsent": unsent, "received": sent - lost,
         "lost": lost, "duplicated": 0, "reordered": 0, "misdelivered": 0, "tx_pps": 1e4,
         "rx_pps": 9.9e3, "loss_ratio": 0.0, "latency_ns": latency, "duration_s": 0.1,
         "generator": {"busy_share": 0.5}}
    )  # fmt: skip


class FakeTraffic:
    def __init__(self, broken: bool = False) -> None:
        self.broken = broken
        self.yields: list[bool] = []

    async def trial(self, duration_s: float, load_pps: float | None, **more: Any) -> TrialResult:
        self.yields.append(more["yield_core"])
        if self.broken:
            raise TrafficError("port_gone", "the peer went away")
        return answer()


class FakeProcess:
    def __init__(self, client: NodeClient) -> None:
        self.client = client


def device_of(fake: FakeNode, traffic: FakeTraffic) -> AttachedDevice:
    fake.vnf_refusals = 0
    stand = Stand(SUBJECT, FakeProcess(client_of(fake)))  # type: ignore[arg-type]
    return AttachedDevice(CASE, stand, traffic, 1e6, share_core=True, cores=PLAN)  # type: ignore[arg-type]


async def test_cycles_are_read_around_a_cost_trial_and_not_in_a_search(fake: FakeNode) -> None:
    traffic = FakeTraffic()
    device = device_of(fake, traffic)
    trial = await device.trial(TrialRequest(0, "cost", 0.1, 1e4))
    assert trial.busy_cycles == 1000 and trial.vnf_busy_cycles == 0 and trial.tsc_hz == 2e9
    assert trial.cpu_percent == pytest.approx(100 * 1000 / (2e9 * 0.1))
    assert trial.loss_ratio == pytest.approx(0.01) and trial.latency_ns["p99_9"] == 5.0
    assert traffic.yields == [True]
    search = await device.trial(TrialRequest(0, "search", 0.1, 1e4))
    assert search.busy_cycles is None and search.cpu_percent is None


async def test_a_lost_generator_is_a_device_error(fake: FakeNode) -> None:
    with pytest.raises(DeviceError, match="peer went away"):
        await device_of(fake, FakeTraffic(broken=True)).trial(TrialRequest(0, "search", 0.1, 1e4))


def test_unsent_frames_count_as_lost_and_mark_the_generator() -> None:
    request = TrialRequest(2, "overload", 0.1, 1e4)
    trial = trial_of(request, answer(unsent=250), 0.0, None, Verdict("generator", "it was slow"))
    assert trial.loss_ratio == pytest.approx(260 / 1250)
    assert trial.generator_limited and trial.round == 2 and trial.limiter == "generator"
    by_switch = Verdict("switch", "it was saturated")
    assert not trial_of(request, answer(unsent=5), 0.0, None, by_switch).generator_limited


def test_approximate_cycles_stay_marked() -> None:
    reading = {"tsc_hz": 1e9, "workers": [], "approximate": True}
    counters = Reading(Cycles.model_validate(reading))
    unknown = Verdict("unknown", "nothing counted")
    request = TrialRequest(0, "cost", 0.1, 1e4)
    trial = trial_of(request, answer(), 0.0, (counters, counters), unknown)
    assert trial.approximate


def test_core_plans_and_what_they_lack() -> None:
    two = plan_cores([0, 1])
    assert (two.switch, two.generator, two.vnf) == ([1], [0], [0])
    assert two.oversubscribed(0) and "3 VNFs" in str(two.oversubscribed(3))
    eight = plan_cores(list(range(8)))
    assert eight.oversubscribed(5) is None and eight.generator == [1]
    assert not set(eight.vnf) & {*eight.switch, *eight.generator, *eight.control}
    with pytest.raises(ValueError, match="no usable core"):
        plan_cores([])


def test_node_configs_are_what_the_node_reads(tmp_path: Path) -> None:
    from headrace.node.config import from_dict

    config = from_dict(node_config(SUBJECT, plan_cores(), 8123))
    assert config.switch == "headrace" and config.vnf_ports == "memif"
    assert [port.name for port in config.ports or []] == ["in0", "out0"]
    folder = run_folder()
    try:
        assert len(str(folder)) < 40
    finally:
        folder.rmdir()


def test_priority_reaches_the_sessions_that_a_node_owns(tmp_path: Path) -> None:
    if os.geteuid() != 0 or not Path("/proc/self/autogroup").exists():
        pytest.skip("needs root and a kernel with autogroups")
    process = subprocess.Popen(
        ["/bin/sleep", "30"], env={"HEADRACE_OWNER": f"{tmp_path}#switch"}, start_new_session=True
    )
    try:
        # Within exec the kernel has no environment of the process to show yet.
        deadline = time.monotonic() + 10
        while not Path(f"/proc/{process.pid}/environ").read_bytes():
            assert time.monotonic() < deadline
        assert raise_owned(tmp_path, nice=-3) == 1
        assert "nice -3" in Path(f"/proc/{process.pid}/autogroup").read_text()
        assert raise_owned(tmp_path / "other") == 0
    finally:
        process.kill()
        process.wait()


def test_a_session_gets_its_priority_back_when_the_benchmark_ends() -> None:
    """It is that of the shell it was called from, and all that is started there would have it."""
    if os.geteuid() != 0 or not Path("/proc/self/autogroup").exists():
        pytest.skip("needs root and a kernel with autogroups")
    show = "cat /proc/self/autogroup"
    bench = "from headrace.bench.priority import raise_priority; print(raise_priority(nice=-7))"
    shell = f"{show}; {sys.executable} -c '{bench}; import os; os.system(\"{show}\")'; {show}"
    done = subprocess.run(
        ["/bin/sh", "-c", shell], capture_output=True, text=True, start_new_session=True, check=True
    )
    found = re.findall(r"^/autogroup-\d+ nice (-?\d+)$", done.stdout, re.MULTILINE)
    assert found == ["0", "-7", "0"], done.stdout


def test_waiting_for_a_core_is_known_and_marks_the_trial(tmp_path: Path) -> None:
    core = min(os.sched_getaffinity(0))
    spin = "import os; os.sched_setaffinity(0, {%d})\nwhile True: pass" % core  # noqa: UP031
    environment = {"HEADRACE_OWNER": f"{tmp_path}#switch"}
    rivals = [subprocess.Popen([sys.executable, "-c", spin], env=environment) for _ in range(3)]
    try:
        deadline = time.monotonic() + 20
        while len(threads := worker_threads(tmp_path, [core])) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        before = waited_ns(threads)
        time.sleep(0.5)
        after = waited_ns(threads)
        assert before is not None and after is not None
        assert after - before > 0.5e9  # three on one core: each waits two thirds of the time
        assert worker_threads(tmp_path / "other", [core]) == []
    finally:
        for rival in rivals:
            rival.kill()
            rival.wait()
    assert waited_ns(threads) is None
    cycles = [Cycles.model_validate({"tsc_hz": 1e9, "workers": [
        {"busy_cycles": busy, "idle_cycles": 0, "packets": 0}]}) for busy in (0, 4000)]  # fmt: skip
    request = TrialRequest(0, "cost", 0.1, 1e4)
    pair = (Reading(cycles[0]), Reading(cycles[1]))
    by_switch = Verdict("switch", "it was saturated")
    trial = trial_of(request, answer(), 0.0, pair, by_switch, waited=1000)
    assert (trial.busy_cycles, trial.waited_cycles, trial.disturbed) == (4000, 1000, False)
    waiting = int(0.011e9)
    assert trial_of(request, answer(), 0.0, pair, by_switch, waited=waiting).disturbed


def test_pollers_that_share_a_core_unevenly_disturb_the_trial_and_say_why() -> None:
    request = TrialRequest(0, "overload", 0.1, None)
    calm = trial_of(request, answer(), 0.0, None, Verdict("switch", "it was saturated"))
    assert not calm.disturbed
    why = "sessions of pollers on one core have unequal nice values (core 0: -20, 0)"
    uneven = replace(calm, detail={**calm.detail, "unequal_sessions": why})
    assert uneven.disturbed and uneven.unequal_sessions == why
    assert uneven.disturbance > calm.disturbance


async def test_a_trial_keeps_its_pollers_sessions_after_they_were_made_equal(
    fake: FakeNode, tmp_path: Path
) -> None:
    if os.geteuid() != 0 or own_nice() is None:
        pytest.skip("needs root and a kernel with autogroups")
    core = min(os.sched_getaffinity(0))
    pinned = ["/usr/bin/taskset", "--cpu-list", str(core), "/bin/sleep", "30"]
    vnfs = [subprocess.Popen(pinned, start_new_session=True) for _ in range(2)]  # noqa: ASYNC220
    try:
        deadline = time.monotonic() + 10
        while any(os.sched_getaffinity(one.pid) != {core} for one in vnfs):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        assert set_nice(vnfs[0].pid, -4)
        fake.vnf_refusals = 0
        stand = Stand(SUBJECT, FakeProcess(client_of(fake)))  # type: ignore[arg-type]
        stand.vnfs = [Path(f"/proc/{one.pid}/task/{one.pid}") for one in vnfs]
        device = AttachedDevice(CASE, stand, FakeTraffic(), 1e6, share_core=True, cores=PLAN)  # type: ignore[arg-type]
        trial = await device.trial(TrialRequest(0, "cost", 0.1, 1e4))
        pids = {str(one.pid) for one in vnfs}
        assert trial.detail["sessions"][str(core)] == dict.fromkeys(pids, -4)
        assert trial.unequal_sessions == ""
        assert set_nice(vnfs[1].pid, 0)
        assert "unequal" in (await device.trial(TrialRequest(0, "cost", 0.1, 1e4))).unequal_sessions
    finally:
        for one in vnfs:
            one.kill()
            one.wait()


def test_what_a_failed_node_left_is_ended_even_if_it_is_stopped(tmp_path: Path) -> None:
    deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(60)"
    environment = {"HEADRACE_OWNER": f"{tmp_path}#switch"}
    left = [
        subprocess.Popen(["/bin/sleep", "60"], env=environment),
        subprocess.Popen([sys.executable, "-c", deaf], env=environment),
    ]
    try:
        os.kill(left[0].pid, signal.SIGSTOP)
        assert asyncio.run(end_owned(tmp_path)) == 2
        for process in left:
            process.wait(5)
        assert asyncio.run(end_owned(tmp_path)) == 0
    finally:
        for process in left:
            process.kill()


async def test_the_bench_keeps_off_the_workers_core(monkeypatch: pytest.MonkeyPatch) -> None:
    """It ran on both, and what it ran on the worker's was half of the busy time at 200 kpps."""
    usable = os.sched_getaffinity(0)
    if len(usable) < 2:
        pytest.skip("one core: there is none to keep off")

    class Generator:
        async def connect(self) -> None: ...

        async def close(self) -> None: ...

    bed = Testbed([], plan_cores())
    monkeypatch.setattr(bed, "_generator", Generator)
    await bed.up()
    try:
        assert os.sched_getaffinity(0) == {min(usable)}
    finally:
        await bed.down()
    assert os.sched_getaffinity(0) == usable


async def test_the_distance_of_the_cores_is_taken_again_where_one_subject_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[bool] = []

    class Client:
        async def pause(self, wanted: bool) -> None:
            told.append(wanted)

    distances = iter([180.0, 590.0])
    bed: Any = object.__new__(Testbed)
    bed._plan = SimpleNamespace(vnf=[0], switch=[1])
    bed._watch = SimpleNamespace(transfer_ns=None)
    bed._running, bed._measured_at = None, -math.inf
    monkeypatch.setattr(bed, "_distance", lambda: next(distances))
    stand = SimpleNamespace(node=SimpleNamespace(client=Client()))
    await bed._run_only(stand)
    await bed._run_only(stand)
    assert bed._watch.transfer_ns == 180.0 and told == [False]
    bed._measured_at -= DISTANCE_S
    await bed._run_only(stand)
    assert bed._watch.transfer_ns == 590.0 and told == [False, True, False]
    assert bed._running is stand


@pytest.mark.parametrize(
    ("switch", "program"),
    [("headrace", "headrace-switch"), ("ovs-dpdk", "ovs-vswitchd"),
     ("ovs-dpdk", "ovs-vswitchd-dpdk")],
)  # fmt: skip
def test_a_reset_finds_the_switch_by_each_name_of_its_program(
    tmp_path: Path, switch: str, program: str
) -> None:
    """Debian's OVS with DPDK is ovs-vswitchd-dpdk: its reset was always skipped."""
    shutil.copy("/bin/sleep", tmp_path / program)
    environment = {"HEADRACE_OWNER": f"{tmp_path}#switch"}
    process = subprocess.Popen([str(tmp_path / program), "30"], env=environment)
    try:
        deadline = time.monotonic() + 10
        while Path(f"/proc/{process.pid}/exe").resolve().name != program:
            assert time.monotonic() < deadline
        assert switch_process(tmp_path, switch) == process.pid
        with pytest.raises(DeviceError, match="part of the kernel"):
            switch_process(tmp_path, "linux-bridge")
    finally:
        process.kill()
        process.wait()
