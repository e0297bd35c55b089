# SPDX-License-Identifier: Apache-2.0
"""A small TRex server: its wire, and a simulated device with a rate cap, a loss and a latency."""

import base64
import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import zmq

from headrace.traffic.trex.wire import pack, unpack


@dataclass
class Device:
    """What the simulated path between the ports does."""

    capacity_pps: float = 1e6
    sendable_pps: float = 1e12
    loss: float = 0.0
    latency_us: int = 20
    duplicated: int = 0
    stray: int = 0  # packets of each group that turn up at port 2
    link_up: bool = True
    busy_answers: int = 0  # "try again" before each acquire
    compressed: bool = True
    queue_full: int = 0


@dataclass
class FakeTrex:
    """Serves on a port of its own in a thread; `calls` keeps what was asked."""

    device: Device = field(default_factory=Device)
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.REP)
        self.port = self._socket.bind_to_random_port("tcp://127.0.0.1")
        self._streams: dict[tuple[int, int], dict[str, Any]] = {}
        self._started: dict[int, float] = {}
        self._counts: dict[int, dict[str, dict[int, float]]] = {}
        self._busy = 0
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> "FakeTrex":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()
        self._socket.close(linger=0)
        self._context.term()

    def _serve(self) -> None:
        while not self._end.is_set():
            if not self._socket.poll(50):
                continue
            request = unpack(self._socket.recv())
            answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request["id"]}
            method, params = request["method"], request["params"]
            self.calls.append((method, params))
            if method != "api_sync_v2" and params.get("api_h") != "handle":
                answer["error"] = {"code": -32602, "message": "wrong api_h"}
            elif not hasattr(self, method):
                answer["error"] = {"code": -32601, "message": f"no {method}"}
            else:
                try:
                    answer["result"] = getattr(self, method)(**params)
                except RuntimeError as error:
                    answer["error"] = {"code": int(str(error)), "message": "busy"}
            frame = pack(answer)
            self._socket.send(frame if self.device.compressed else plain(answer))

    def api_sync_v2(self, name: str, major: int, minor: int) -> Any:
        assert (name, major) == ("STL", 5)
        return {"api_h": "handle"}

    def get_system_info(self, **_: Any) -> Any:
        return {"ports": [{"index": i, "hw_mac": f"02:00:00:00:00:0{i}"} for i in range(3)]}

    def get_port_status(self, port_id: int, **_: Any) -> Any:
        return {"attr": {"link": {"up": self.device.link_up or port_id != 1}}}

    def get_global_stats(self, **_: Any) -> Any:
        return {"cpu_util": 25.0, "queue_full": self.device.queue_full}

    def acquire(self, port_id: int, **_: Any) -> Any:
        self._busy += 1
        if self._busy <= self.device.busy_answers:
            raise RuntimeError("-32001")
        self._busy = 0
        return f"h{port_id}"

    def release(self, port_id: int, handler: str, **_: Any) -> Any:
        assert handler == f"h{port_id}"
        return {}

    def remove_all_streams(self, port_id: int, **_: Any) -> Any:
        self._streams = {key: s for key, s in self._streams.items() if key[0] != port_id}
        return {}

    def add_stream(self, port_id: int, stream_id: int, stream: dict[str, Any], **_: Any) -> Any:
        assert len(base64.b64decode(stream["packet"]["binary"])) >= 60
        self._streams[port_id, stream_id] = stream
        return {}

    def start_traffic(self, port_id: int, mul: dict[str, Any], **_: Any) -> Any:
        assert mul == {"type": "raw", "op": "abs", "value": 1.0}
        self._started[port_id] = time.monotonic()
        return {"multiplier": 1.0}

    def stop_traffic(self, port_id: int, **_: Any) -> Any:
        # The rate that was asked for over the time asked for: what the clock says is noise.
        duration = next(
            params["duration"]
            for method, params in reversed(self.calls)
            if method == "start_traffic" and params["port_id"] == port_id
        )
        streams = [s for (port, _), s in self._streams.items() if port == port_id]
        asked = sum(s["mode"]["rate"]["value"] for s in streams)
        sent_part = min(1.0, self.device.sendable_pps / asked)
        passed = min(1.0, self.device.capacity_pps / (asked * sent_part)) * (1 - self.device.loss)
        for stream in streams:
            sent = stream["mode"]["rate"]["value"] * duration * sent_part
            group = self._counts.setdefault(
                stream["flow_stats"]["stream_id"], {"tp": {}, "rp": {0: 0, 1: 0, 2: 0}}
            )
            group["tp"][port_id] = group["tp"].get(port_id, 0) + sent
            group["rp"][1 - port_id] += sent * passed
            group["rp"][2] += self.device.stray
            if stream["flow_stats"]["rule_type"] == "latency":
                group["rp"][1 - port_id] += self.device.duplicated
                stamped = group.setdefault("stamped", {0: 0})
                stamped[0] += sent * passed
        return {}

    def get_pgid_stats(self, pgids: list[int], **_: Any) -> Any:
        flow: dict[str, Any] = {}
        latency: dict[str, Any] = {}
        for group in pgids:
            counts = self._counts.get(group, {"tp": {}, "rp": {}})
            flow[str(group)] = {
                name: {str(port): round(count) for port, count in counts[name].items()}
                | {"total": round(sum(counts[name].values()))}
                for name in ("tp", "rp")
            }
            if "stamped" in counts:
                stamped = round(counts["stamped"][0])
                late = stamped // 100
                low = self.device.latency_us
                latency[str(group)] = {
                    "er": {
                        "drp": 0,
                        "dup": self.device.duplicated,
                        "ooo": 3 if stamped else 0,
                        "sth": 0,
                        "stl": 0,
                    },
                    "lat": {
                        "total_min": low - 5,
                        "histogram": {str(low): stamped - late, str(10 * low): late},
                    },
                }
        return {"flow_stats": flow, "latency": latency, "ver_id": {}}


def plain(answer: dict[str, Any]) -> bytes:
    """An answer as the server may also send it: not compressed."""
    return json.dumps(answer).encode()
