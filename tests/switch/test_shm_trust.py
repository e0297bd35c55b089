# SPDX-License-Identifier: Apache-2.0
"""A VNF that changes packets that it has sent: what leaves its group is what the rules saw."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from pathlib import Path

import pytest

from tests.support.headrace_port import VnfPort, library_path
from tests.support.switch import Switch, run, unique_bridge

pytestmark = [pytest.mark.root, pytest.mark.dpdk, pytest.mark.timeout(120)]

_SOURCE = Path(__file__).with_name("hostile_vnf.c")
_BURSTS = 2000
_ALLOWED = bytes.fromhex("0200000000aa")
_ETH_P_ALL = 3


def _compile(place: Path) -> Path:
    for tool in ("cc", "pkg-config"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    library = library_path()
    words = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "headrace-port"],
        env={**os.environ, "PKG_CONFIG_PATH": str(library.parents[2] / "meson-uninstalled")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    program = place / "hostile"
    run("cc", "-O2", "-o", program, _SOURCE, *words, f"-Wl,-rpath,{library.parent}")
    return program


def _bridge(switch: Switch) -> str:
    """A bridge with the hostile VNF's port h (1), and x (2) of another group."""
    name = unique_bridge()
    switch.vsctl("add-br", name, "--", "set", "Bridge", name, "fail-mode=secure")
    for number, port in enumerate("hx", start=1):
        switch.vsctl(
            "add-port", name, port, "--", "set", "Interface", port, "type=shm",
            f"options:group={port}", "options:buffers=1024", f"ofport_request={number}",
        )  # fmt: skip
    return name


def test_headers_changed_after_sending_do_not_leave_to_another_group(
    switch: Switch, tmp_path: Path
) -> None:
    program = _compile(tmp_path)
    bridge = _bridge(switch)
    switch.ofctl("add-flow", bridge, "in_port=1,ip,dl_dst=02:00:00:00:00:aa,actions=output:2")
    x = VnfPort(switch.rundir / "x.shm", "x")
    got: list[bytes] = []
    try:
        with subprocess.Popen(
            [str(program), str(switch.rundir / "h.shm"), "h", str(_BURSTS)],
            stdout=subprocess.PIPE,
            text=True,
        ) as hostile:
            try:
                while hostile.poll() is None:
                    got += x.receive()
                assert hostile.stdout is not None
                sent = int(hostile.stdout.read())
            finally:
                hostile.kill()
        while more := x.receive():
            got += more
    finally:
        x.close()
    assert sent > _BURSTS
    assert len(got) > sent // 100, "hardly anything was let through: the test shows nothing"
    # The length in the IPv4 header, which no rule looks at, may be either: the VNF writes it after
    # the address, so the switch's copy may have been made in between.
    assert {frame[:6] for frame in got} == {_ALLOWED}
    assert {len(frame) for frame in got} == {400}


def test_headers_changed_after_sending_do_not_leave_to_the_kernel(
    switch: Switch, tmp_path: Path
) -> None:
    program = _compile(tmp_path)
    bridge = _bridge(switch)
    run("ip", "link", "set", "dev", bridge, "up")
    switch.ofctl("add-flow", bridge, "in_port=1,ip,dl_dst=02:00:00:00:00:aa,actions=LOCAL")
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ETH_P_ALL)) as kernel:
        kernel.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 << 20)
        kernel.bind((bridge, 0))
        run(str(program), switch.rundir / "h.shm", "h", _BURSTS)
        kernel.settimeout(0.5)
        got: list[bytes] = []
        try:
            while True:
                got.append(kernel.recv(2048))
        except TimeoutError:
            pass
    # The kernel's own frames leave by the same interface.
    came = [frame for frame in got if frame[6:12] == bytes.fromhex("020000000001")]
    assert came, "nothing was let through: the test shows nothing"
    assert {frame[:6] for frame in came} == {_ALLOWED}
    assert {len(frame) for frame in came} == {400}
