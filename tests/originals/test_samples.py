# SPDX-License-Identifier: Apache-2.0
"""The samples deployed on every switch, and VNFs of every engine: each frame is counted.

A sample's VNFs are stood for by what passes frames between all of its ports, or, where the original
has a server without ports behind it, by a sink.
"""

from __future__ import annotations

import io
import os
import shutil
import socket
import struct
import tarfile
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from headrace.engines.runc import RUNC
from headrace.machine.guests.kernel import find_kernel
from headrace.node.errors import GraphRefused
from headrace.node.node import Node
from headrace.node.rest.app import make_app
from tests.guest.guest import COMMAND_LINE, base_image, wire_script
from tests.guest.images import Image, busybox
from tests.node import graphs
from tests.node.conftest import StartNode
from tests.node.sites import FRAMES, Site, received, site_of
from tests.node.wire import udp
from tests.originals.samples import LAN, SAMPLES, Json, Sample

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts switches"),
    pytest.mark.timeout(600),
]

SETTINGS: dict[str, Any] = {
    "host_stack": {"networks": ["198.18.0.0/15"]},
    "memory_mb": 2048,
}
HOST = f"198.18.{os.getpid() % 250}.1"  # one of this process alone: it is the host's own
BY_NAME = {sample.name: sample for sample in SAMPLES}

_INTERNAL = {"demoGraph", "managementNetGraph", "boot_hs_graph"}
_VLANS = {"instantiate_demo_graph_1", "instantiate_demo_graph_2", "README_NFFG"}
REFUSED: dict[str, set[str]] = {
    "headrace": set(),
    "ovs": set(),
    "ovs-dpdk": set(),
    "linux-bridge": _INTERNAL | _VLANS,
    "openflow": _INTERNAL,
}
"""What a switch cannot carry: one that is driven by OpenFlow alone makes no LSIs, so no internal
groups; the kernel's bridge and nftables push no VLAN tags, either."""
HAVE_LSIS = ("headrace", "ovs", "ovs-dpdk")
SWITCHES = [
    "headrace",
    *(pytest.param(name, marks=pytest.mark.full) for name in REFUSED if name != "headrace"),
]

BRIDGE = """#!/bin/sh
set -e
ip link add br0 type bridge
ip link set br0 up
for port in $(ls /sys/class/net); do
  case $port in eth*) ip link set $port master br0;; esac
done
"""


async def host_answers(site: Site) -> None:
    """The host's address, which is a graph's, is resolved from the first port."""
    mac = bytes.fromhex("020000000c01")
    request = b"\xff" * 6 + mac + b"\x08\x06" + bytes.fromhex("0001080006040001")
    peer = HOST.rsplit(".", 1)[0] + ".2"
    request += mac + socket.inet_aton(peer) + bytes(6) + socket.inet_aton(HOST)
    for _ in range(60):
        site.first.send(request.ljust(60, b"\0"))
        for frame in await site.first.receive(5, patience_s=0.3):
            if frame[12:14] == b"\x08\x06" and frame[20:22] == b"\0\2":
                assert frame[28:32] == socket.inet_aton(HOST)
                return
    pytest.fail("the host does not answer")


def file_of(rundir: Path, name: str, engine: str, function: str, **more: Any) -> str:
    """A template of the operator's."""
    words = {
        "id": name,
        "name": name,
        "functional-capability": name,
        "engine": engine,
        "function": function,
        "cores": 0 if (engine, function) == ("native", "bridge") else 1,
        "memory-mb": 0 if (engine, function) == ("native", "bridge") else 64,
        "ports": {"min": 1, "max": 8},
        **more,
    }
    file = rundir / f"{name}.yaml"
    file.write_text(yaml.safe_dump(words))
    return str(file)


def machine(rundir: Path) -> list[str]:
    """The template of a virtual machine that joins two ports; none where there is no kernel."""
    kernel = find_kernel()
    if kernel is None or shutil.which("qemu-system-x86_64") is None:
        return []
    image = base_image(kernel)
    lines = [*wire_script("br0", "eth0", "eth1"), "echo 'guest: forwards'"]
    image.add("/autostart", "\n".join(lines).encode())
    archive = rundir / "guest.cpio"
    archive.write_bytes(image.archive())
    configuration = {
        "kernel": str(kernel.image),
        "initrd": str(archive),
        "command_line": COMMAND_LINE,
        "accelerator": "tcg",
        "ready": "guest: forwards",
        "boot_s": 100,
    }
    more = {"memory-mb": 128, "idle": "yield", "configuration": configuration}
    return [file_of(rundir, "vm", "vm", "guest", **more)]


def operators(rundir: Path) -> list[str]:
    """The operator's templates: one of each engine that needs no image of a client's."""
    testpmd = shutil.which("dpdk-testpmd")
    program: dict[str, Any] = {
        "cores": 2,
        "memory-mb": 128,
        "configuration": {
            "program": testpmd,
            "arguments": [
                "--nb-ports={ports}", "--forward-mode=io", "--total-num-mbufs=8192",
                "--stats-period=1",
            ],
            "ready": "NIC statistics",
        },
    }  # fmt: skip
    return [
        file_of(rundir, "sink", "process", "sink"),
        file_of(rundir, "dpdk", "process", "bridge"),
        file_of(rundir, "container", "container", "bridge"),
        file_of(rundir, "kernel", "native", "bridge"),
        *([file_of(rundir, "program", "process", "program", **program)] if testpmd else []),
        *machine(rundir),
    ]


def docker_image(rundir: Path) -> bytes:
    """What `docker save` would give of an image with the original's start.sh."""
    root = busybox().add("start.sh", BRIDGE.encode(), mode=0o755)
    return Image(root, Cmd=["/bin/sh"]).write(rundir / "docker.tar", "docker-archive").read_bytes()


def native_archive() -> bytes:
    """A native function as the original has it: start and stop, with the interfaces' names."""
    out = io.BytesIO()
    stop = "#!/bin/sh\nip link del br0\n"
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        for name, text in (("start", BRIDGE), ("stop", stop)):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(text), 0o755
            tar.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


async def clients(node: Node, rundir: Path) -> dict[str, str]:
    """A client's templates with images, sent to the datastore; their ids."""
    found = {}
    transport = httpx.ASGITransport(app=make_app(node))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
        for kind, octets in (("docker", docker_image(rundir)), ("native", native_archive())):
            wire = {
                "name": f"their {kind}",
                "functional-capability": "example",
                "vnf-type": kind,
                "uri-image": "",
                "uri-image-type": "local-file",
                "memory-size": 32,
                "CPUrequirements": {"platformType": "x86", "socket": [{"coreNumbers": 1}]},
                "ports": [{"position": "0-N", "label": "inout", "min": "1", "name": "eth"}],
            }
            made = await http.put("/v2/nf_template/", json=wire)
            headers = {"content-type": "application/octet-stream"}
            path = f"/v2/nf_image/{made.text}/"
            answer = await http.put(path, content=octets, headers=headers)
            assert answer.status_code == 200, answer.text
            found[kind] = made.text
    return found


def with_templates(sample: Sample, template: str) -> Json:
    """The sample with this template for its VNFs, and a sink for servers."""
    document = sample.document({str(ports): template for ports in range(1, 9)})
    for vnf in document["forwarding-graph"].get("VNFs", []):
        if str(vnf.get("name", "")).startswith("dhcp"):
            vnf["vnf_template"] = "sink"
    for point in document["forwarding-graph"]["end-points"]:
        if point["type"] == "host-stack":
            point["host-stack"]["ipv4"] = f"{HOST}/24"
    return document


async def deployed(site: Site, sample: Sample, document: Json) -> None:
    """Deploys the sample, counts what passes it, and deletes it."""
    node = site.node
    await node.graphs.create("g", document)
    assert node.status(node.graphs.record("g"))["status"] == "complete", sample.name
    if sample.wire is None:
        groups = [p["internal"] for p in inner(document)["end-points"] if p["type"] == "internal"]
        group = groups[0]["internal-group"]
        beside = graphs.document(
            [graphs.interface("in", LAN), graphs.internal("group", group)],
            graphs.joined(("endpoint:in", "endpoint:group")),
        )
        await node.graphs.create("beside", beside)
        await host_answers(site)
        await node.graphs.delete("beside")
    elif sample.one_way:
        await one_way(site)
    else:
        _, _, tag = sample.wire[0].partition(".")
        await site.crosses(int(tag) if tag else None)
    await node.graphs.delete("g")


def inner(document: Json) -> Json:
    made: Json = document["forwarding-graph"]
    return made


async def one_way(site: Site) -> None:
    """Frames pass from the first port to the second, and none back."""
    for attempt in range(60):
        site.first.send(udp(b"probe %3d" % attempt + bytes(20)))
        if await received(site.second, 1, 0.5):
            break
    await received(site.second, 100, 0.2)
    frames = [udp(b"frame %3d" % number + bytes(20)) for number in range(FRAMES)]
    for frame in frames:
        site.first.send(frame)
        site.second.send(frame)
    assert await received(site.second, FRAMES) == frames
    assert await received(site.first, 1, 0.3) == []


@pytest.mark.parametrize("switch", SWITCHES)
async def test_every_sample(start_node: StartNode, rundir: Path, switch: str) -> None:
    """Its VNFs as bridges of the kernel; what a switch cannot do is refused, with the reason."""
    async with site_of(start_node, switch, templates=operators(rundir), **SETTINGS) as site:
        refused = set()
        for sample in SAMPLES:
            document = with_templates(sample, "kernel")
            try:
                site.node.graphs.draft("g", document)
            except GraphRefused as why:
                assert f"switch {switch}" in str(why), sample.name
                refused.add(sample.name)
                continue
            await deployed(site, sample, document)
        assert refused == REFUSED[switch]


@pytest.mark.skipif(shutil.which(RUNC) is None, reason=f"{RUNC} is not installed")
@pytest.mark.full
@pytest.mark.parametrize("switch", REFUSED)
async def test_every_engine(start_node: StartNode, rundir: Path, switch: str) -> None:
    """The sample with one VNF, which is of each engine in turn, the clients' own images too."""
    sample = BY_NAME["passthrough_with_vnf"]
    cores = {"control": [0], "switch": [1], "vnf": [0, 1]}  # `program` has two
    more = {"templates": operators(rundir), "cores": cores, **SETTINGS}
    async with site_of(start_node, switch, **more) as site:
        clients_own = await clients(site.node, rundir)
        known = [template.id for template in site.node.datastore.templates().all()]
        ours = [name for name in ("dpdk", "container", "program", "vm") if name in known]
        assert {"dpdk", "container"} <= set(ours)
        for template in (*ours, *clients_own.values()):
            print("template", template)  # pytest shows it if the frames do not pass
            await deployed(site, sample, with_templates(sample, template))
        await a_pipeline(site, sample, switch)


async def a_pipeline(site: Site, sample: Sample, switch: str) -> None:
    """The sample's VNF as flows inside the switch, where it has LSIs."""
    document = with_templates(sample, "flows")
    (vnf,) = inner(document)["VNFs"]
    vnf["configuration"] = {"flows": ["in_port=1,actions=output:2", "in_port=2,actions=output:1"]}
    if switch in HAVE_LSIS:
        await deployed(site, sample, document)
        return
    with pytest.raises(GraphRefused, match=f"engine lsi, whose ports the switch {switch} does not"):
        site.node.graphs.draft("g", document)


async def test_a_nat_by_its_own_words(start_node: StartNode) -> None:
    """The orchestrator's NAT with nothing but its name: the node's own, with its ports by place."""
    async with site_of(start_node, "headrace") as site:
        await site.node.graphs.create("g", BY_NAME["put_graph"].graph)
        (vnf,) = site.node.graphs.record("g").plan.vnfs()
        assert (vnf.engine, vnf.function) == ("process", "nat")
        for _ in range(60):
            site.first.send(udp(b"there" + bytes(20)))
            if came := await site.second.receive(1, patience_s=0.5):
                break
        (frame,) = came
        assert socket.inet_ntoa(frame[26:30]) == "203.0.113.1"
        assert socket.inet_ntoa(frame[30:34]) == "10.0.0.2"
        (port,) = struct.unpack("!H", frame[34:36])
        reply = udp(b"back" + bytes(20), source="10.0.0.2", dest="203.0.113.1", dest_port=port,
                    source_port=2000)  # fmt: skip
        site.second.send(reply)
        came = await site.first.receive(1)
        assert [socket.inet_ntoa(one[30:34]) for one in came] == ["10.0.0.1"]
        assert struct.unpack("!HH", came[0][34:38]) == (2000, 1000)
