# SPDX-License-Identifier: Apache-2.0
"""QEMU's command line, and its control protocol against a small server of the test's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from headrace.engines.qemu import (
    Device,
    PciFunction,
    SharedMemory,
    Tap,
    VhostUser,
    VirtualMachine,
)
from headrace.engines.qmp import QmpError, connected

MAC = "02:00:00:00:00:01"


def values(words: list[str], option: str) -> list[str]:
    """What follows each `option`."""
    return [words[i + 1] for i, word in enumerate(words) if word == option]


def machine(*devices: Device, **more: object) -> list[str]:
    made = VirtualMachine("vm", 256, Path("/run/q"), Path("/run/c"), devices, **more)  # type: ignore[arg-type]
    return made.arguments()


def test_memory_is_shared_with_the_switch() -> None:
    [memory] = values(machine(), "-object")
    assert memory == "memory-backend-memfd,id=ram,size=256M,share=on"
    [memory] = values(machine(hugepages=True), "-object")
    assert memory.endswith(",hugetlb=on,hugetlbsize=2M")


def test_nics_of_other_processes_have_no_msi_x_without_kvm() -> None:
    """QEMU 7.2 dies of it; NICs that QEMU serves itself are not concerned."""
    shared, own = VhostUser(Path("/run/a"), MAC), Tap("t0", MAC)
    first, second = values(machine(shared, own), "-device")
    assert "vectors=0," in first and "addr=0x4," in first
    assert "vectors=3," in second and "addr=0x5," in second
    first, _ = values(machine(shared, own, accelerator="kvm"), "-device")
    assert "vectors=3," in first
    [queues] = values(
        machine(VhostUser(Path("/run/a"), MAC, queues=4), accelerator="kvm"), "-device"
    )
    assert "vectors=10," in queues and "mq=on" in queues


def test_who_makes_the_socket() -> None:
    [console, listens] = values(machine(VhostUser(Path("/run/a,b"), MAC)), "-chardev")
    assert console.startswith("file,id=console,")
    assert listens == "socket,id=chr0,path=/run/a,,b,server=on,wait=off"
    [_, connects] = values(machine(VhostUser(Path("/run/a"), MAC, listens=False)), "-chardev")
    assert connects.endswith("server=off,reconnect=1")


def test_memory_and_functions_as_devices() -> None:
    words = machine(SharedMemory(7, 1 << 24), PciFunction("0000:03:10.0"))
    assert values(words, "-object")[1].endswith("share=on,size=16777216,mem-path=/proc/self/fd/7")
    assert values(words, "-device") == [
        "ivshmem-plain,memdev=shm0,addr=0x4",
        "vfio-pci,host=0000:03:10.0,addr=0x5",
    ]


RESUMED = {"event": "RESUME", "timestamp": {"seconds": 1, "microseconds": 2}}
GREETING = {"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": []}}


@asynccontextmanager
async def serving(path: Path, *lines: Any, greeting: object) -> AsyncIterator[list[object]]:
    """A QEMU that answers each command by the next of `lines`, a list of them for several."""
    asked: list[object] = []
    answers = iter(lines)

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(json.dumps(greeting).encode() + b"\n")
        while text := await reader.read(4096):  # one command at a time, without an end of line
            request = json.loads(text)
            number = {"id": request.pop("id")} if "id" in request else {}
            asked.append(request)
            answer = next(answers)
            for part in answer if isinstance(answer, list) else [answer]:
                part = part if "event" in part else {**part, **number}
                writer.write(json.dumps(part).encode() + b"\n")
        writer.close()

    server = await asyncio.start_unix_server(talk, path)
    async with server:
        yield asked


async def test_qmp_commands_events_and_errors(tmp_path: Path) -> None:
    path = tmp_path / "qmp"
    answers: tuple[Any, ...] = (
        {"return": {}},
        [
            {"event": "RESUME", "timestamp": {"seconds": 1, "microseconds": 2}},
            {"return": {"status": "running"}},
        ],
        {"error": {"class": "GenericError", "desc": "Device 'x' not found"}},
    )
    async with (
        serving(path, *answers, greeting=GREETING) as asked,
        connected(path) as qmp,
    ):
        assert await qmp.execute("query-status") == {"status": "running"}
        with pytest.raises(QmpError, match="device_del: Device 'x' not found"):
            await qmp.execute("device_del", id="x")
        assert asked == [
            {"execute": "qmp_capabilities", "arguments": {}},
            {"execute": "query-status"},
            {"execute": "device_del", "arguments": {"id": "x"}},
        ]


async def test_qmp_without_a_qemu(tmp_path: Path) -> None:
    with pytest.raises(QmpError, match="No such file"):
        async with connected(tmp_path / "none"):
            pass
    async with serving(tmp_path / "other", greeting={"hello": 1}):
        with pytest.raises(QmpError, match="Did not understand Greeting"):
            async with connected(tmp_path / "other"):
                pass
