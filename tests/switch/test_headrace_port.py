# SPDX-License-Identifier: Apache-2.0
"""libheadrace-port as others use it: compiled against by pkg-config, from C."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.frames import udp_frame
from tests.support.headrace_port import VnfPort, library_path
from tests.support.switch import Switch, run, unique_bridge
from tests.switch.test_switch_links import gather, link_up, send_all

pytestmark = [pytest.mark.root, pytest.mark.dpdk, pytest.mark.timeout(120)]

_EXAMPLE = Path(__file__).parents[2] / "dataplane" / "shm" / "headrace_port_pass.c"


def _compile(place: Path) -> Path:
    """The example as the system's C compiler makes it, with the words of pkg-config."""
    for tool in ("cc", "pkg-config"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    library = library_path()
    build = library.parents[2]
    words = subprocess.run(
        ["pkg-config", "--cflags", "--libs", "headrace-port >= 1.2"],
        env={**os.environ, "PKG_CONFIG_PATH": str(build / "meson-uninstalled")},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    program = place / "pass"
    strict = ("-std=c11", "-D_DEFAULT_SOURCE", "-Wall", "-Wextra", "-Werror")
    run("cc", *strict, "-o", program, _EXAMPLE, *words, f"-Wl,-rpath,{library.parent}")
    return program


def test_the_example_in_c_passes_packets(switch: Switch, tmp_path: Path) -> None:
    program = _compile(tmp_path)
    bridge = unique_bridge()
    switch.vsctl("add-br", bridge, "--", "set", "Bridge", bridge, "fail-mode=secure")
    for number, port in enumerate("abcd", start=1):
        switch.vsctl(
            "add-port", bridge, port, "--", "set", "Interface", port, "type=shm",
            "options:group=g", f"ofport_request={number}",
        )  # fmt: skip
        switch.ofctl("add-flow", bridge, f"in_port={number},actions=output:{(number - 1 ^ 1) + 1}")
    socket = switch.rundir / "g.shm"
    a, d = VnfPort(socket, "a"), VnfPort(socket, "d")
    command = [str(program), str(socket), "b", "c"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as example:
        try:
            link_up(switch, a, d, "a")
            link_up(switch, a, d, "c")
            frames = [udp_frame(udp_src=n, size=60 + n) for n in range(25)]
            send_all(a, frames)
            assert gather(d, len(frames)) == frames
            example.send_signal(signal.SIGTERM)
            said, _ = example.communicate(timeout=10)
        finally:
            example.kill()
            a.close()
            d.close()
    assert example.returncode == 0
    octets = sum(map(len, frames))
    assert json.loads(said) == {"packets": [len(frames), 0], "octets": [octets, 0]}
