# SPDX-License-Identifier: Apache-2.0
"""What of VPP the driver needs: its binary API over a Unix socket, and its layer-2 cross connects.

The messages are described as VPP's own API files describe them (types and order of fields), and are
packed and unpacked here by these descriptions; their checksums are made up. Interfaces are packet
sockets on interfaces of the kernel; sub-interfaces, tag rewrites and cross connects do to frames
what VPP's nodes ethernet-input, l2-input, l2-output and l2-vtr do.
"""

from __future__ import annotations

import json
import re
import select
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.node.wire import Wire

NONE = 0xFFFF_FFFF
_HEAD: list[list[Any]] = [["u16", "_vl_msg_id"], ["u32", "client_index"], ["u32", "context"]]
_REPLY: list[list[Any]] = [["u16", "_vl_msg_id"], ["u32", "context"], ["i32", "retval"]]
_NUMBER = ["u32", "sw_if_index"]
_DETAILS = _REPLY[:2]

MESSAGES: dict[str, list[list[Any]]] = {
    "show_version": [],
    "cli_inband": [["string", "cmd", 0]],
    "sw_interface_dump": [_NUMBER, ["bool", "name_filter_valid"], ["string", "name_filter", 0]],
    "sw_interface_set_flags": [_NUMBER, ["u32", "flags"]],
    "sw_interface_tag_add_del": [["bool", "is_add"], _NUMBER, ["string", "tag", 64]],
    "af_packet_create_v3": [
        ["u32", "mode"], ["u8", "hw_addr", 6], ["bool", "use_random_hw_addr"],
        ["string", "host_if_name", 64], ["u32", "rx_frame_size"], ["u32", "tx_frame_size"],
        ["u32", "rx_frames_per_block"], ["u32", "tx_frames_per_block"], ["u32", "flags"],
        ["u16", "num_rx_queues"], ["u16", "num_tx_queues"],
    ],
    "af_packet_delete": [["string", "host_if_name", 64]],
    "create_subif": [
        _NUMBER, ["u32", "sub_id"], ["u32", "sub_if_flags"], ["u16", "outer_vlan_id"],
        ["u16", "inner_vlan_id"],
    ],
    "delete_subif": [_NUMBER],
    "sw_interface_set_l2_xconnect": [
        ["u32", "rx_sw_if_index"], ["u32", "tx_sw_if_index"], ["bool", "enable"],
    ],
    "l2_xconnect_dump": [],
    "l2_interface_vlan_tag_rewrite": [
        _NUMBER, ["u32", "vtr_op"], ["u32", "push_dot1q"], ["u32", "tag1"], ["u32", "tag2"],
    ],
    "memif_socket_filename_add_del_v2": [
        ["bool", "is_add"], ["u32", "socket_id"], ["string", "socket_filename", 0],
    ],
    "memif_socket_filename_dump": [],
    "memif_create_v2": [
        ["u32", "role"], ["u32", "mode"], ["u8", "rx_queues"], ["u8", "tx_queues"], ["u32", "id"],
        ["u32", "socket_id"], ["u32", "ring_size"], ["u16", "buffer_size"],
        ["bool", "no_zero_copy"], ["u8", "hw_addr", 6], ["string", "secret", 24],
    ],
    "memif_delete": [_NUMBER],
    "create_vhost_user_if_v2": [
        ["bool", "is_server"], ["string", "sock_filename", 256], ["bool", "renumber"],
        ["bool", "enable_gso"], ["bool", "enable_packed"], ["bool", "enable_event_idx"],
        ["u32", "custom_dev_instance"], ["bool", "use_custom_mac"], ["u8", "mac_address", 6],
        ["string", "tag", 64],
    ],
    "delete_vhost_user_if": [_NUMBER],
}  # fmt: skip
REPLIES: dict[str, list[list[Any]]] = {
    "show_version_reply": [
        ["string", "program", 32], ["string", "version", 32], ["string", "build_date", 32],
        ["string", "build_directory", 256],
    ],
    "cli_inband_reply": [["string", "reply", 0]],
    "af_packet_create_v3_reply": [_NUMBER],
    "create_subif_reply": [_NUMBER],
    "memif_socket_filename_add_del_v2_reply": [["u32", "socket_id"]],
    "memif_create_v2_reply": [_NUMBER],
    "create_vhost_user_if_v2_reply": [_NUMBER],
}  # fmt: skip
DETAILS: dict[str, list[list[Any]]] = {
    "sw_interface_details": [
        _NUMBER, ["u32", "sup_sw_if_index"], ["u8", "l2_address", 6], ["u32", "flags"],
        ["u32", "type"], ["u32", "link_duplex"], ["u32", "link_speed"], ["u16", "link_mtu"],
        ["u32", "mtu", 4], ["u32", "sub_id"], ["u8", "sub_number_of_tags"],
        ["u16", "sub_outer_vlan_id"], ["u16", "sub_inner_vlan_id"], ["u32", "sub_if_flags"],
        ["u32", "vtr_op"], ["u32", "vtr_push_dot1q"], ["u32", "vtr_tag1"], ["u32", "vtr_tag2"],
        ["u16", "outer_tag"], ["u8", "b_dmac", 6], ["u8", "b_smac", 6], ["u16", "b_vlanid"],
        ["u32", "i_sid"], ["string", "interface_name", 64], ["string", "interface_dev_type", 64],
        ["string", "tag", 64],
    ],
    "l2_xconnect_details": [["u32", "rx_sw_if_index"], ["u32", "tx_sw_if_index"]],
    "memif_socket_filename_details": [["u32", "socket_id"], ["string", "socket_filename", 108]],
}  # fmt: skip

_SIZES = {"u8": "B", "bool": "?", "u16": "H", "u32": "I", "i32": "i", "u64": "Q"}


def definitions() -> dict[str, Any]:
    """The description of all messages, as `get_api_json` gives it."""
    rows: list[list[Any]] = []
    services: dict[str, Any] = {}
    for number, (name, fields) in enumerate(MESSAGES.items()):
        rows.append([name, *_HEAD, *fields, {"crc": f"0x{0x1000 + number:08x}"}])
        if name.endswith("_dump"):
            services[name] = {"reply": name.replace("_dump", "_details"), "stream": True}
            continue
        reply = f"{name}_reply"
        more = REPLIES.get(reply, [])
        rows.append([reply, *_REPLY, *more, {"crc": f"0x{0x2000 + number:08x}"}])
        services[name] = {"reply": reply}
    for number, (name, fields) in enumerate(DETAILS.items()):
        rows.append([name, *_DETAILS, *fields, {"crc": f"0x{0x3000 + number:08x}"}])
    return {"types": [], "messages": rows, "services": services, "aliases": {}}


def _pack(rows: list[list[Any]], values: dict[str, Any], counts: dict[str, list[Any]]) -> bytes:
    out = b""
    for kind, name, *size in rows:
        value = values.get(name)
        if kind == "string" and size == [0]:
            text = str(value or "").encode()
            out += struct.pack(">I", len(text)) + text
        elif kind == "string":
            out += str(value or "").encode().ljust(size[0], b"\0")
        elif kind in counts:
            items = value or []
            out += b"".join(_pack(counts[kind], one, counts) for one in items)
        elif size:
            out += bytes(struct.calcsize(">" + _SIZES[kind]) * size[0])
        else:
            out += struct.pack(">" + _SIZES[kind], value or 0)
    return out


def _unpack(rows: list[list[Any]], data: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    at = 0
    for kind, name, *size in rows:
        if kind == "string":
            length = size[0]
            if length == 0:
                (length,) = struct.unpack_from(">I", data, at)
                at += 4
            found[name] = data[at : at + length].split(b"\0")[0].decode()
            at += length
        elif size:
            at += size[0] * struct.calcsize(">" + _SIZES[kind])
        else:
            (found[name],) = struct.unpack_from(">" + _SIZES[kind], data, at)
            at += struct.calcsize(">" + _SIZES[kind])
    assert at == len(data), (rows, len(data), at)
    return found


@dataclass
class Interface:
    """An interface or sub-interface; `wire` is the kernel's end of the former."""

    number: int
    sup: int
    name: str
    host: str = ""
    kind: str = ""
    wire: Wire | None = None
    tag: str = ""
    up: bool = False
    sub_id: int = 0
    vlan: int | None = None
    """Of a sub-interface; 0 is the untagged one."""
    pops: bool = False
    target: int | None = None
    counters: dict[str, int] = field(
        default_factory=lambda: {k: 0 for k in ("rx packets", "rx bytes", "tx packets", "tx bytes")}
    )


class FakeVpp:
    """One VPP; use as a context manager. `requests` are the names of the messages it has got."""

    def __init__(self, socket_path: Path) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.interfaces: dict[int, Interface] = {}
        self.memif_sockets: dict[int, str] = {}
        self._next = 1
        self._lock = threading.RLock()
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._listener.bind(str(socket_path))
        self._listener.listen()
        self._connections: list[socket.socket] = []
        self._ended = threading.Event()
        bundled = json.loads((files("vpp_papi.data") / "memclnt.api.json").read_text())
        self._types = {f"vl_api_{name}_t": rows for name, *rows in
                       ((t[0], *[f for f in t[1:] if isinstance(f, list)])
                        for t in bundled["types"])}  # fmt: skip
        own = definitions()
        self._json = json.dumps([own])
        self._numbers: dict[int, str] = {}
        self._fields: dict[str, list[list[Any]]] = {}
        table = []
        for number, (name, *rows) in enumerate([*bundled["messages"], *own["messages"]], 15):
            crc = rows[-1]["crc"][2:]
            index = {"sockclnt_create": 15, "sockclnt_create_reply": 16}.get(name, number + 100)
            self._numbers[index] = name
            self._fields[name] = [row for row in rows if isinstance(row, list)]
            table.append({"index": index, "name": f"{name}_{crc}"})
        self._table = table
        self._ids = {name: index for index, name in self._numbers.items()}
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._listen, self._forward)
        ]

    def __enter__(self) -> FakeVpp:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for interface in self.interfaces.values():
            if interface.wire is not None:
                interface.wire.__exit__()

    # The API.

    def _listen(self) -> None:
        while not self._ended.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._connections.append(connection)
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while len(head := stream.read(16)) == 16:
                (length,) = struct.unpack_from(">I", head, 8)
                data = stream.read(length)
                name = self._numbers[struct.unpack_from(">H", data)[0]]
                values = _unpack(self._fields[name], data)
                for reply, answer in self._answers(name, values):
                    answer |= {"_vl_msg_id": self._ids[reply], "context": values["context"]}
                    body = _pack(self._fields[reply], answer, self._types)
                    try:
                        connection.sendall(struct.pack(">QII", 0, len(body), 0) + body)
                    except OSError:
                        return

    def _answers(self, name: str, values: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
        reply = f"{name}_reply"
        if name == "sockclnt_create":
            count = len(self._table)
            return [(reply, {"index": 1, "count": count, "message_table": self._table})]
        if name == "get_api_json":
            return [(reply, {"json": self._json})]
        with self._lock:
            if name not in MESSAGES:
                return [(reply, {})]
            self.requests.append((name, values))
            if name.endswith("_dump"):
                details = name.replace("_dump", "_details")
                return [(details, row) for row in getattr(self, f"_{name}")()]
            handler: Callable[..., dict[str, Any] | int | None] = getattr(self, f"_{name}")
            known = {row[1] for row in MESSAGES[name]}
            found = handler(**{k: v for k, v in values.items() if k in known})
            return [(reply, {"retval": found} if isinstance(found, int) else found or {})]

    def _show_version(self) -> dict[str, Any]:
        return {"program": "vpe", "version": "25.10-fake"}

    def _cli_inband(self, cmd: str) -> dict[str, Any]:
        assert cmd == "show interface"
        lines = [
            f"{'Name':^33}{'Idx':^5}{'State':>8}  MTU (L3/IP4/IP6/MPLS)     {'Counter':<16} Count"
        ]
        for one in self.interfaces.values():
            shown = [(name, str(count)) for name, count in one.counters.items() if count]
            state = "up" if one.up else "down"
            head = f"{one.name:<33}{one.number:^5}{state:>8}          9000/0/0/0     "
            for name, count in shown or [("", "")]:
                lines.append(f"{head}{name:<16}{count:>16} ")
                head = " " * len(head)
        return {"reply": "\n".join(lines) + "\n"}

    def _sw_interface_dump(self) -> list[dict[str, Any]]:
        return [
            {
                "sw_if_index": one.number,
                "sup_sw_if_index": one.sup,
                "flags": 3 if one.up else 0,
                "sub_id": one.sub_id,
                "sub_outer_vlan_id": one.vlan or 0,
                "vtr_op": 3 if one.pops else 0,
                "interface_name": one.name,
                "tag": one.tag,
            }
            for one in self.interfaces.values()
        ]

    def _new(self, name: str, **more: Any) -> dict[str, Any]:
        number, self._next = self._next, self._next + 1
        self.interfaces[number] = Interface(number, more.pop("sup", number), name, **more)
        return {"sw_if_index": number}

    def _remove(self, number: int) -> int:
        one = self.interfaces.pop(number, None)
        if one is None:
            return -2  # VNET_API_ERROR_INVALID_SW_IF_INDEX
        if one.wire is not None:
            one.wire.__exit__()
        for other in [o.number for o in self.interfaces.values() if o.sup == number]:
            self._remove(other)
        return 0

    def _sw_interface_set_flags(self, sw_if_index: int, flags: int) -> int:
        self.interfaces[sw_if_index].up = bool(flags & 1)
        return 0

    def _sw_interface_tag_add_del(self, is_add: bool, sw_if_index: int, tag: str) -> int:
        self.interfaces[sw_if_index].tag = tag if is_add else ""
        return 0

    def _af_packet_create_v3(self, host_if_name: str, **_: Any) -> dict[str, Any] | int:
        if any(one.host == host_if_name for one in self.interfaces.values()):
            return -81  # VNET_API_ERROR_IF_ALREADY_EXISTS
        try:
            wire = Wire(host_if_name)
        except OSError:
            return -49  # VNET_API_ERROR_SYSCALL_ERROR_1
        return self._new(f"host-{host_if_name}", host=host_if_name, wire=wire, kind="af_packet")

    def _af_packet_delete(self, host_if_name: str) -> int:
        found = [one.number for one in self.interfaces.values() if one.host == host_if_name]
        return self._remove(found[0]) if found else -2

    def _create_subif(
        self, sw_if_index: int, sub_id: int, sub_if_flags: int, outer_vlan_id: int, **_: Any
    ) -> dict[str, Any] | int:
        above = self.interfaces.get(sw_if_index)
        if above is None:
            return -2
        if any(o.sup == sw_if_index and o.sub_id == sub_id for o in self.interfaces.values()):
            return -58  # VNET_API_ERROR_VLAN_ALREADY_EXISTS
        assert sub_if_flags in (1, 2) and bool(outer_vlan_id) == (sub_if_flags == 2)
        name = f"{above.name}.{sub_id}"
        return self._new(name, sup=sw_if_index, sub_id=sub_id, vlan=outer_vlan_id, kind="sub")

    def _delete_subif(self, sw_if_index: int) -> int:
        return self._remove(sw_if_index)

    def _sw_interface_set_l2_xconnect(
        self, rx_sw_if_index: int, tx_sw_if_index: int, enable: bool
    ) -> int:
        if rx_sw_if_index not in self.interfaces:
            return -2
        self.interfaces[rx_sw_if_index].target = tx_sw_if_index if enable else None
        return 0

    def _l2_xconnect_dump(self) -> list[dict[str, Any]]:
        return [
            {"rx_sw_if_index": one.number, "tx_sw_if_index": one.target}
            for one in self.interfaces.values()
            if one.target is not None
        ]

    def _l2_interface_vlan_tag_rewrite(self, sw_if_index: int, vtr_op: int, **_: Any) -> int:
        assert vtr_op in (0, 3)
        self.interfaces[sw_if_index].pops = vtr_op == 3
        return 0

    def _memif_socket_filename_add_del_v2(
        self, is_add: bool, socket_id: int, socket_filename: str
    ) -> dict[str, Any]:
        if is_add:
            assert socket_id == NONE
            socket_id = len(self.memif_sockets) + 1
            self.memif_sockets[socket_id] = socket_filename
        else:
            del self.memif_sockets[socket_id]
        return {"socket_id": socket_id}

    def _memif_socket_filename_dump(self) -> list[dict[str, Any]]:
        return [{"socket_id": n, "socket_filename": f} for n, f in self.memif_sockets.items()]

    def _memif_create_v2(self, socket_id: int, id: int, **_: Any) -> dict[str, Any]:
        assert socket_id in self.memif_sockets
        return self._new(f"memif{socket_id}/{id}", kind="memif")

    def _memif_delete(self, sw_if_index: int) -> int:
        return self._remove(sw_if_index)

    def _create_vhost_user_if_v2(self, is_server: bool, **_: Any) -> dict[str, Any]:
        assert not is_server
        return self._new(f"VirtualEthernet0/0/{self._next}", kind="vhost-user")

    def _delete_vhost_user_if(self, sw_if_index: int) -> int:
        return self._remove(sw_if_index)

    # Packets.

    def _forward(self) -> None:
        while not self._ended.is_set():
            with self._lock:
                open_now = {
                    one.wire._socket: one
                    for one in self.interfaces.values()
                    if one.wire is not None
                }
            try:
                ready, _, _ = select.select(list(open_now), [], [], 0.02)
            except (OSError, ValueError):
                continue  # one was closed meanwhile
            with self._lock:
                for each in ready:
                    one = open_now[each]
                    if self.interfaces.get(one.number) is not one or one.wire is None:
                        continue
                    try:
                        self._received(one, one.wire._next())
                    except OSError:
                        continue

    def _received(self, one: Interface, frame: bytes) -> None:
        one.counters["rx packets"] += 1
        one.counters["rx bytes"] += len(frame)
        if not one.up:
            return
        tag = None
        if frame[12:14] == b"\x81\x00":
            tag = struct.unpack_from("!H", frame, 14)[0] & 0xFFF
        subs = {o.vlan: o for o in self.interfaces.values() if o.sup == one.number and o is not one}
        source = subs.get(tag or 0, one)
        if source.target is None or not source.up:
            return
        if source.pops:
            frame = frame[:12] + frame[16:]
        target = self.interfaces.get(source.target)
        if target is None or not target.up:
            return
        if target.pops and target.vlan:
            frame = frame[:12] + struct.pack("!HH", 0x8100, target.vlan) + frame[12:]
        device = self.interfaces[target.sup]
        if device.wire is not None and device.up:
            device.wire.send(frame)
            device.counters["tx packets"] += 1
            device.counters["tx bytes"] += len(frame)


# As a program.

SECTIONS: dict[str, set[str]] = {
    "unix": {"nodaemon", "log", "cli-listen", "runtime-dir", "poll-sleep-usec"},
    "api-segment": {"prefix"},
    "socksvr": {"socket-name"},
    "statseg": {"socket-name"},
    "cpu": {"main-core", "corelist-workers"},
    "memory": {"main-heap-size"},
    "buffers": {"buffers-per-numa", "page-size"},
    "plugins": {"plugin"},
}
"""The parts of startup.conf and their parameters, of those that the driver may write."""


def read_conf(text: str) -> dict[str, dict[str, str]]:
    """A startup.conf. VPP does not start with a parameter that it does not know; nor does this.

    Raises:
        ValueError: names it.
    """
    found: dict[str, dict[str, str]] = {}
    for name, body in re.findall(r"^([\w-]+) \{\n(.*?)^\}$", text, re.MULTILINE | re.DOTALL):
        for line in body.splitlines():
            word, _, value = line.strip().partition(" ")
            if word not in SECTIONS.get(name, ()):
                raise ValueError(f"unknown input `{name} {word}'")
            found.setdefault(name, {})[word] = value
    return found


def main() -> None:
    """`vpp -c startup.conf`, until SIGTERM."""
    conf = read_conf(Path(sys.argv[sys.argv.index("-c") + 1]).read_text())
    cpu = conf["cpu"]
    if cpu["main-core"] in cpu.get("corelist-workers", "").split(","):
        sys.exit("main-core and corelist-workers overlap")
    # What VPP leaves there.
    memory = Path("/dev/shm") / f"{conf['api-segment']['prefix']}-vpe-api"
    memory.write_bytes(b"")
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    with FakeVpp(Path(conf["socksvr"]["socket-name"])):
        signal.sigwait({signal.SIGTERM})


if __name__ == "__main__":
    main()
