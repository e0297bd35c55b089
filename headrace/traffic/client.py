# SPDX-License-Identifier: Apache-2.0
"""Typed asyncio client of headrace-traffic: starts the generator, configures it, runs trials.

The control protocol (newline-delimited JSON over a Unix stream socket) is described in
docs/traffic.md. `TrafficProcess` owns a generator process; `TrafficClient` connects to one that is
already running:

    async with TrafficProcess(cpu=0) as traffic:
        await traffic.add_port("a", "net_memif0,role=client,socket=/run/x.sock,id=0")
        await traffic.add_port("b", "net_memif1,role=client,socket=/run/x.sock,id=1")
        await traffic.configure([StreamSpec(name="ab", tx_port="a", rx_port="b", flows=100)])
        result = await traffic.trial(duration_s=1.0, load=1e6)
        print(result.loss_ratio, result.latency_ns.p50)

Units are in the names. Sizes count the frame check sequence, as in RFC 2544: 64 is a buffer of
60 bytes.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError

from headrace.machine.processes import UNTIL_PARENT_ENDS
from headrace.machine.programs import ProgramMissing, find_program
from headrace.traffic.models import (
    Calibration,
    Load,
    PortInfo,
    ReplaySpec,
    StreamSpec,
    TrialResult,
)

PROGRAM = "headrace-traffic"

_Model = TypeVar("_Model", bound=BaseModel)


class TrafficError(Exception):
    """The generator rejected a request, failed, or exited. `code` is its snake_case reason."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(f"{code}: {message}")
        self.code = code
        self.message = message


class TrafficClient:
    """A connection to a generator's control socket.

    One call at a time may be a trial; others (`ports`, `ping`, `read`) are answered meanwhile.
    """

    def __init__(self, control_path: Path | str) -> None:
        self.control_path = Path(control_path)
        self._reader: asyncio.StreamReader | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[Any]] = {}
        self._listener: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Opens the socket. Raises TrafficError `unreachable`."""
        try:
            self._reader, self._writer = await asyncio.open_unix_connection(
                self.control_path, limit=64 << 20
            )
        except OSError as error:
            raise TrafficError("unreachable", f"{self.control_path}: {error}") from error
        self._listener = asyncio.create_task(self._listen(self._reader))

    async def close(self) -> None:
        """Closes the socket; pending calls fail with TrafficError `closed`."""
        if self._listener is not None:
            self._listener.cancel()
            await asyncio.gather(self._listener, return_exceptions=True)
            self._listener = None
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        self._fail_waiting("the connection was closed")

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    def _fail_waiting(self, why: str) -> None:
        waiting, self._waiting = self._waiting, {}
        for future in waiting.values():
            if not future.done():
                future.set_exception(TrafficError("closed", f"{self.control_path}: {why}"))

    async def _listen(self, reader: asyncio.StreamReader) -> None:
        """Passes each reply to its pending call."""
        why = "the generator closed the connection"
        try:
            while line := await reader.readline():
                reply = json.loads(line)
                future = self._waiting.pop(reply.get("id"), None)
                if future is None or future.done():
                    continue
                if "error" in reply:
                    error = reply["error"]
                    future.set_exception(
                        TrafficError(error.get("code", "error"), error.get("message", ""))
                    )
                else:
                    future.set_result(reply.get("result"))
        except (OSError, ValueError) as error:
            why = f"broken reply: {error}"
        finally:
            self._fail_waiting(why)

    async def call(self, method: str, **params: Any) -> Any:
        """Calls `method`; returns its result or raises TrafficError."""
        if self._writer is None or self._listener is None or self._listener.done():
            raise TrafficError("closed", f"{self.control_path}: not connected; connect() first")
        number = next(self._ids)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[number] = future
        request = {"id": number, "method": method, "params": params}
        try:
            self._writer.write(json.dumps(request).encode() + b"\n")
            await self._writer.drain()
            return await future
        except OSError as error:
            raise TrafficError("closed", f"{self.control_path}: {error}") from error
        finally:
            self._waiting.pop(number, None)

    async def ping(self) -> dict[str, Any]:
        """Program, version, pid and EAL status of the generator."""
        answer: dict[str, Any] = await self.call("ping")
        return answer

    async def add_port(
        self,
        name: str,
        devargs: str,
        *,
        mac: str | None = None,
        n_descriptors: int | None = None,
        max_frame: int | None = None,
        wait_s: float | None = None,
        wait_link_s: float = 0.0,
    ) -> PortInfo:
        """Makes a port from DPDK vdev arguments; waits up to `wait_link_s` for its link.

        A virtio-user server port is not made before its peer connects; after `wait_s` (default 30)
        that is the error `no_peer`. `max_frame` (with FCS, default 1518) is the largest frame.
        """
        options = {
            "mac": mac,
            "n_descriptors": n_descriptors,
            "max_frame": max_frame,
            "wait_s": wait_s,
        }
        params = {key: value for key, value in options.items() if value is not None}
        params |= {"name": name, "devargs": devargs}
        port = _parse(PortInfo, await self.call("add_port", **params))
        if not port.link and wait_link_s > 0:
            port = (await self.wait_links([name], timeout_s=wait_link_s))[0]
        return port

    async def remove_port(self, name: str) -> None:
        """Stops and removes the port. Streams that name it must be gone."""
        await self.call("remove_port", name=name)

    async def ports(self) -> list[PortInfo]:
        """All ports, with their links as they are now."""
        return [_parse(PortInfo, port) for port in await self.call("ports")]

    async def wait_links(
        self, names: Sequence[str] | None = None, timeout_s: float = 10.0
    ) -> list[PortInfo]:
        """Waits until the links of `names` (default: all ports) are up.

        Raises TrafficError `link_down`, which names those that are not.
        """
        deadline = asyncio.get_running_loop().time() + timeout_s
        while True:
            found = {port.name: port for port in await self.ports()}
            wanted = list(found) if names is None else list(names)
            missing = [name for name in wanted if name not in found]
            if missing:
                raise TrafficError("unknown_port", f"no port {', '.join(missing)}; add_port first")
            down = [name for name in wanted if not found[name].link]
            if not down:
                return [found[name] for name in wanted]
            if asyncio.get_running_loop().time() > deadline:
                raise TrafficError(
                    "link_down",
                    f"no link on {', '.join(down)} after {timeout_s:g} s; is the peer running?",
                )
            await asyncio.sleep(0.05)

    async def configure(self, streams: Sequence[StreamSpec | ReplaySpec]) -> None:
        """Replaces all streams. Precomputes their flows, so 1M flows take a moment."""
        await self.call(
            "configure", streams=[stream.model_dump(exclude_none=True) for stream in streams]
        )

    async def trial(
        self,
        duration_s: float | None,
        load: Load | float | None,
        *,
        warmup_s: float = 0.0,
        drain_s: float = 0.1,
        yield_core: bool = False,
        late_bound_us: float | None = None,
        histograms: bool = False,
        bare: bool = False,
    ) -> TrialResult:
        """Runs one trial and returns its result.

        `load` is the sum over all streams; a number is packets per second, None as fast as the
        ports take it. `duration_s` may be None if the load says how many packets. Packets of the
        warm-up are not counted; those that come within `drain_s` after the last one sent
        are. `yield_core` yields the core between rounds. A packet that the port would
        not take within `late_bound_us` of its time counts as unsent. With `histograms` the result
        has those of the latencies, which can be merged with other trials'. With `bare` packets have
        no sequence number and no time stamp, which costs the generator less: arrivals are counted,
        duplicates, order and latency are not.
        """
        return _parse(
            TrialResult,
            await self.call(
                "trial",
                **_load(duration_s, load, warmup_s, drain_s, yield_core, late_bound_us),
                **({"histograms": True} if histograms else {}),
                **({"bare": True} if bare else {}),
            ),
        )

    async def start(
        self,
        load: Load | float | None,
        *,
        duration_s: float | None = None,
        warmup_s: float = 0.0,
        drain_s: float = 0.1,
        yield_core: bool = False,
        late_bound_us: float | None = None,
    ) -> None:
        """Starts sending and returns; `read` while it runs, `stop` for the result."""
        await self.call(
            "start", **_load(duration_s, load, warmup_s, drain_s, yield_core, late_bound_us)
        )

    async def read(self) -> TrialResult:
        """The figures of the run so far; packets in flight count as lost until they arrive."""
        return _parse(TrialResult, await self.call("read"))

    async def stop(self) -> TrialResult:
        """Ends the run that `start` began, drains, and returns its result."""
        return _parse(TrialResult, await self.call("stop"))

    async def calibrate(
        self,
        *,
        sizes: Sequence[int] = (64, 512, 1518),
        duration_s: float = 1.0,
        load_pps: float = 1e6,
    ) -> Calibration:
        """Measures the generator in loopback: ceiling per size, latency floor, timing error.

        Later trial results carry the last calibration.
        """
        return _parse(
            Calibration,
            await self.call(
                "calibrate", sizes=list(sizes), duration_s=duration_s, load_pps=load_pps
            ),
        )

    async def shutdown(self) -> None:
        """Shuts the generator down."""
        await self.call("shutdown")


def _load(
    duration_s: float | None,
    load: Load | float | None,
    warmup_s: float,
    drain_s: float,
    yield_core: bool,
    late_bound_us: float | None,
) -> dict[str, Any]:
    params: dict[str, Any] = load.params() if isinstance(load, Load) else {"load_pps": load}
    params |= {"warmup_s": warmup_s, "drain_s": drain_s, "yield": yield_core}
    if duration_s is not None:
        params["duration_s"] = duration_s
    if late_bound_us is not None:
        params["late_bound_us"] = late_bound_us
    return params


def _parse(model: type[_Model], answer: Any) -> _Model:
    try:
        return model.model_validate(answer)
    except ValidationError as error:
        raise TrafficError("bad_reply", str(error)) from error


def _program() -> Path:
    try:
        return find_program(PROGRAM)
    except ProgramMissing as error:
        raise TrafficError("no_program", str(error)) from error


class TrafficProcess(TrafficClient):
    """A generator process, started on entry and terminated on exit.

    `cpu` is the core of its worker, or those of several workers, which share its ports;
    `control_cpu` that of everything else (default: the first of these). `huge=False` runs without
    hugepages. The process's output goes to `log_path` (default: in its own temporary directory,
    removed at exit; an error of the start-up quotes its end).
    """

    def __init__(
        self,
        *,
        cpu: int | Sequence[int] = 0,
        control_cpu: int | None = None,
        huge: bool = True,
        memory_mb: int = 256,
        file_prefix: str | None = None,
        program: Path | None = None,
        log_path: Path | None = None,
        extra_args: Sequence[str] = (),
        start_timeout_s: float = 30.0,
    ) -> None:
        self._directory = tempfile.TemporaryDirectory(prefix="headrace-traffic-")
        super().__init__(Path(self._directory.name) / "ctl")
        self._program = program
        self._log_path = log_path or Path(self._directory.name) / "log"
        cpus = ",".join(str(each) for each in ([cpu] if isinstance(cpu, int) else cpu))
        self._args = ["--ctl", str(self.control_path), "--cpu", cpus, "--mem", str(memory_mb)]
        self._args += ["--file-prefix", file_prefix or Path(self._directory.name).name]
        if control_cpu is not None:
            self._args += ["--control-cpu", str(control_cpu)]
        self._args += [*([] if huge else ["--no-huge"]), *extra_args]
        self._start_timeout_s = start_timeout_s
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int | None:
        """The process's id while it runs."""
        return self._process.pid if self._process else None

    def _log_end(self) -> str:
        text = self._log_path.read_text(errors="replace") if self._log_path.exists() else ""
        return text[-2000:].strip()

    async def connect(self) -> None:
        """Starts the process and connects. Raises TrafficError `start_failed` with its output."""
        program = self._program or _program()
        with self._log_path.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *UNTIL_PARENT_ENDS,
                program,
                *self._args,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        deadline = asyncio.get_running_loop().time() + self._start_timeout_s
        try:
            while True:
                if self._process.returncode is not None:
                    raise TrafficError(
                        "start_failed",
                        f"{program} exited with {self._process.returncode}: {self._log_end()}",
                    )
                if self.control_path.exists():
                    try:
                        await super().connect()
                        await self.ping()
                        return
                    except TrafficError as error:
                        if error.code not in {"unreachable", "closed"}:
                            raise
                if asyncio.get_running_loop().time() > deadline:
                    raise TrafficError(
                        "start_failed",
                        f"{program}: no answer in {self._start_timeout_s:g} s: {self._log_end()}",
                    )
                await asyncio.sleep(0.05)
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Ends the process (SIGTERM, then SIGKILL after 5 s) and removes its directory."""
        await super().close()
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            process.send_signal(signal.SIGTERM)
            try:
                await asyncio.wait_for(process.wait(), timeout=5)
            except TimeoutError:
                process.kill()
                await process.wait()
        self._directory.cleanup()
