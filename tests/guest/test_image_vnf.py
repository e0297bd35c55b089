# SPDX-License-Identifier: Apache-2.0
"""Images as VNFs of a graph: their packets counted, their isolation looked at, nothing left."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from headrace.engines.runc import RUNC
from headrace.node.errors import ConfigError, DeployFailed, GraphRefused
from headrace.node.node import Node
from headrace.node.rest.app import make_app
from headrace.node.tear_down import tear_down
from headrace.node.templates import load
from headrace.traffic import TrafficProcess
from tests.guest.bed import PER_DIRECTION, cross_both_ways, eventually
from tests.guest.images import Image, Layer, busybox
from tests.node import graphs
from tests.node.conftest import StartNode

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(shutil.which(RUNC) is None, reason=f"{RUNC} is not installed (make setup)"),
]

BRIDGE = """
set -e
ip link add br0 type bridge
for port in eth0 eth1; do ip link set $port master br0; done
ip link set br0 up
echo "uid $(id -u) groups $(id -G) $COLOR in $PWD"
echo changed >/etc/a && cat /etc/a
echo bridge is up
exec sleep 100000
"""


def template(rundir: Path, name: str, **configuration: Any) -> str:
    """A template of the engine `container` for an image; its file."""
    words = {
        "id": name,
        "name": name,
        "functional-capability": name,
        "engine": "container",
        "function": "image",
        "cores": 1,
        "memory-mb": 64,
        "ports": {"min": 1, "max": 4},
        "configuration": configuration,
        "graph-may-set": ["addresses", "routes", "command", "environment"],
    }
    file = rundir / f"{name}.yaml"
    file.write_text(yaml.safe_dump(words))
    return str(file)


async def start(start_node: StartNode, *templates: str) -> Node:
    return await start_node(
        hugepages="off",
        ports=[{"name": name, "kind": "memif"} for name in ("p0", "p1")],
        templates=list(templates),
        oversubscribe=True,
    )


def container_of(node: Node) -> tuple[str, int]:
    (vnf,) = node.graphs.record("g").plan.vnfs()
    process = node.supervisor.find(f"vnf-{vnf.name}")
    assert process is not None
    return vnf.name, process.pid


def inside(node: Node, name: str, *command: str) -> str:
    """What a command says that runs in the container."""
    words = [RUNC, "--root", str(node.rundir / "runc"), "exec", name, *command]
    return subprocess.run(words, capture_output=True, text=True, check=True, timeout=30).stdout


def remains(node: Node, name: str) -> list[str]:
    """What there still is of a VNF."""
    mounts = Path("/proc/self/mounts").read_text().splitlines()
    places = [node.rundir / "runc" / name, node.rundir / "bundles" / name]
    groups = Path("/sys/fs/cgroup").glob(f"**/headrace-*/{name}")
    devices = [name for name in os.listdir("/sys/class/net") if name.startswith(node.prefix)]
    return [
        *(line for line in mounts if str(node.rundir) in line),
        *(str(place) for place in (*places, *groups) if place.exists()),
        *(device for device in devices if device[len(node.prefix)] in "gx"),
    ]


@pytest.mark.parametrize("form", ["directory", "oci-archive", "docker-archive"])
async def test_an_image_passes_every_packet_and_leaves_nothing(
    start_node: StartNode, rundir: Path, form: str
) -> None:
    image = Image(
        busybox().add("etc/a", b"original"),
        Layer().directory("srv", uid=0),
        Entrypoint=["/bin/sh", "-c"],
        Cmd=[BRIDGE],
        Env=["COLOR=red", "PATH=/bin"],
        WorkingDir="/srv",
    )
    place = image.write(rundir / "image", form)
    file = template(
        rundir, "web", image=str(place), capabilities=["CAP_NET_ADMIN"], ready="bridge is up"
    )
    node = await start(start_node, file)
    transport = httpx.ASGITransport(app=make_app(node))
    async with (
        httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http,
        TrafficProcess(cpu=0, huge=False, memory_mb=192) as traffic,
    ):
        answer = await http.put("/NF-FG/g", json=graphs.chain("web", 1))
        assert answer.status_code == 201, answer.text
        await cross_both_ways(http, traffic)
        ports = (await http.get("/node/vnfs/g/v0/counters")).json()["ports"]
        for port in ports.values():
            assert port["rx_packets"] >= PER_DIRECTION and port["tx_packets"] >= PER_DIRECTION

        name, pid = container_of(node)
        log = node.supervisor.log_of(f"vnf-{name}").read_text()
        assert "uid 0 groups 0 65535 red in /srv" in log and "changed" in log
        (unpacked,) = (node.rundir / "unpacked").glob("*/rootfs/etc/a")
        assert unpacked.read_text() == "original"
        for kind in ("net", "user", "mnt", "pid"):
            assert os.readlink(f"/proc/{pid}/ns/{kind}") != os.readlink(f"/proc/self/ns/{kind}")
        status = await asyncio.to_thread(Path(f"/proc/{pid}/status").read_text)
        fields = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        (vnf,) = node.graphs.record("g").plan.vnfs()
        assert fields["Uid"].split() == [str(vnf.user)] * 4
        assert int(fields["CapBnd"], 16) == 1 << 12  # CAP_NET_ADMIN, of its own namespaces
        assert fields["Seccomp"] == "2" and fields["NoNewPrivs"] == "1"
        (shown,) = node.status(node.graphs.record("g"))["vnfs"]
        assert shown["engine"] == "container" and shown["running"]

        # The same again is no change; killed, it is made again.
        assert (await http.put("/NF-FG/g", json=graphs.chain("web", 1))).status_code < 300
        assert container_of(node) == (name, pid)
        os.kill(pid, signal.SIGKILL)
        spec, engine = node.vnf("g", "v0")
        await eventually(lambda: not engine.running(spec))
        assert (await http.delete("/NF-FG/g")).status_code == 204
    await eventually(lambda: remains(node, name) == [])


async def test_users_and_limits_of_an_image_are_its_own(
    start_node: StartNode, rundir: Path
) -> None:
    image = Image(
        busybox().directory("data", 0o700, uid=101).add("secret", b"root's", mode=0o600),
        Entrypoint=["/bin/sleep"],
        Cmd=["100000"],
        User="web:102",
    )
    place = image.write(rundir / "image", "oci-archive")
    file = template(rundir, "web", image=str(place), writable_mb=1)
    node = await start(start_node, file)
    await node.graphs.create("g", graphs.chain("web", 1))
    name, pid = container_of(node)
    assert inside(node, name, "/bin/id", "-u").strip() == "101"
    assert inside(node, name, "/bin/id", "-G").split() == ["102"]
    script = (
        "echo mine >/data/f; cat /data/f; cat /secret || echo closed; "
        "head -c 3000000 /dev/zero >/data/big; wc -c </data/big; ls /sys/fs/cgroup; "
        "echo x >/bin/planted || echo read-only"
    )
    said = inside(node, name, "/bin/busybox", "sh", "-c", script.replace("head", "busybox head"))
    lines = said.splitlines()
    assert lines[:2] == ["mine", "closed"] and lines[-1] == "read-only"
    assert int(lines[2]) < 1 << 20
    (vnf,) = node.graphs.record("g").plan.vnfs()
    assert vnf.user is not None and os.stat(f"/proc/{pid}").st_uid > vnf.user
    # Nobody but this VNF gets at what is in its image.
    bundle = node.rundir / "bundles" / name
    assert bundle.stat().st_mode & 0o777 == 0o500 and bundle.stat().st_uid == vnf.user
    assert (node.rundir / "unpacked").stat().st_mode & 0o077 == 0
    await node.close()
    await tear_down(rundir)
    await eventually(lambda: remains(node, name) == [])


@pytest.mark.parametrize(
    ("configuration", "words"),
    [
        ({"image": "relative"}, "absolute"),
        ({"image": "docker://x"}, "HOST"),
        ({"image": "/x", "capabilities": ["CAP_SYS_ADMIN"]}, "capabilities"),
        ({"image": "/x", "addresses": {"port:0": ["10.0.0.1"]}}, "prefix"),
        ({"image": "/x", "addresses": {"port:9": ["10.0.0.1/24"]}}, "no port 'port:9'"),
        ({"image": "/x", "mounts": ["/"]}, "mounts"),
    ],
)
async def test_a_wrong_configuration_is_refused_before_anything_starts(
    start_node: StartNode, rundir: Path, configuration: dict[str, Any], words: str
) -> None:
    node = await start(start_node, template(rundir, "web", **configuration))
    with pytest.raises(GraphRefused, match=words):
        await node.check("g", graphs.chain("web", 1))


@pytest.mark.parametrize(
    ("layer", "config", "words"),
    [
        (Layer().add("a", b"x"), {"Cmd": ["/nothing"]}, "nothing"),
        (Layer().add("../a", b"x"), {"Cmd": ["/a"]}, "out of the image"),
        (busybox(), {"Cmd": ["/bin/sh", "-c", "echo sorry; exit 3"]}, "sorry"),
        (busybox(), {}, "no command"),
        (busybox(), {"Cmd": ["/bin/sh"], "User": "nobody"}, "no user 'nobody'"),
    ],
)
async def test_what_cannot_run_says_why_and_leaves_nothing(
    start_node: StartNode, rundir: Path, layer: Layer, config: dict[str, Any], words: str
) -> None:
    place = Image(layer, **config).write(rundir / "image", "directory")
    node = await start(start_node, template(rundir, "web", image=str(place), ready="never"))
    with pytest.raises(DeployFailed, match=words):
        await node.graphs.create("g", graphs.chain("web", 1))
    await node.graphs.settle()
    for left in (node.rundir / "runc", node.rundir / "bundles"):
        assert not left.exists() or os.listdir(left) == []
    assert str(node.rundir) not in Path("/proc/self/mounts").read_text()  # noqa: ASYNC240


def test_no_template_lets_a_graph_name_an_image(rundir: Path) -> None:
    file = Path(template(rundir, "web", image="/x"))
    words = yaml.safe_load(file.read_text())
    for key in ("image", "capabilities", "user", "entrypoint", "writable_mb", "tag"):
        file.write_text(json.dumps({**words, "graph-may-set": [key]}))
        with pytest.raises(ConfigError, match=f"graph-may-set: {key}"):
            load([file])
