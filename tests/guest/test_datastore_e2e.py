# SPDX-License-Identifier: Apache-2.0
"""Images that clients bring boot: the node opens them, and QEMU is told their format."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.engines.qmp import connected
from headrace.engines.vm import VmEngine
from headrace.node.rest.app import make_app
from tests.node import disks, graphs
from tests.node.conftest import StartNode
from tests.node.test_datastore import MACHINE, OCTETS

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a node"),
    pytest.mark.skipif(
        not shutil.which("qemu-img") or not shutil.which("qemu-system-x86_64"), reason="needs QEMU"
    ),
]


@pytest.mark.parametrize("kind", ["raw", "qcow2"])
async def test_a_clients_image_boots(start_node: StartNode, rundir: Path, kind: str) -> None:
    node = await start_node(
        hugepages="off",
        ports=[{"name": name, "kind": "memif"} for name in ("p0", "p1")],
        oversubscribe=True,
    )
    raw = disks.boots("the disk has booted")
    image = raw if kind == "raw" else disks.qcow2(rundir, raw)
    transport = httpx.ASGITransport(app=make_app(node))
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", timeout=110
    ) as http:
        template: dict[str, Any] = {**MACHINE, "memory-size": 64}
        template_id = (await http.put("/v2/nf_template", json=template)).text
        path = f"/v2/nf_image/{template_id}"
        assert (await http.put(path, content=image, headers=OCTETS)).status_code == 200
        document = graphs.chain(template_id, 1)
        settings = {"ready": "the disk has booted", "boot_s": 60}
        document["forwarding-graph"]["VNFs"][0]["configuration"] = settings
        answer = await http.put("/NF-FG/g", json=document)
        assert answer.status_code == 201, answer.text
        vnf, engine = node.vnf("g", "v0")
        assert isinstance(engine, VmEngine) and vnf.user is not None
        async with connected(engine._qmp(vnf), timeout_s=5.0) as qmp:
            (block,) = await qmp.execute("query-block")
        inserted = block["inserted"]["image"]["backing-image"]
        assert inserted["format"] == kind and "backing-filename" not in inserted
        console = await http.get("/node/vnfs/g/v0/console")
        assert "the disk has booted" in console.text
        # A new image is for later; the machine that runs keeps the one that it has.
        assert (await http.put(path, content=image[:-512] + b"x" * 512, headers=OCTETS)).is_success
        assert engine.running(vnf) and engine.image(vnf).disk is not None
        assert (await http.delete(path)).status_code == 409
        assert (await http.delete("/NF-FG/g")).status_code == 204
        assert (await http.delete(f"/v2/nf_template/{template_id}")).status_code == 200
    assert list((rundir / "images").iterdir()) == []


def test_the_commands(rundir: Path, tmp_path: Path) -> None:
    def headrace(*words: str, code: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-c", "from headrace.cli import main; main()", *words],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env={**os.environ, "HEADRACE_RUNDIR": str(rundir)},
        )
        assert done.returncode == code, (words, done.stderr)
        return done.stderr if code else done.stdout

    (tmp_path / "t.json").write_text(json.dumps(MACHINE))
    image = tmp_path / "disk.raw"
    image.write_bytes(disks.boots("x") * 9)  # more than a chunk
    (tmp_path / "over.qcow2").write_bytes(disks.with_backing(tmp_path))
    (tmp_path / "g.json").write_text(json.dumps(graphs.chain("pass", 1)))
    headrace("up", "--rest", "127.0.0.1:0", "--oversubscribe")
    headrace("graph", "deploy", "g", str(tmp_path / "g.json"))
    assert len(headrace("vnf", "logs", "g", "v0", "--lines", "1").splitlines()) == 1
    assert "has no console" in headrace("vnf", "console", "g", "v0", code=1)
    (said,) = headrace("vnf", "logs", "g", "v0", "--lines", "1", "--json").splitlines()
    assert list(json.loads(said)) == ["text", "offset"] and json.loads(said)["offset"] > 0
    assert json.loads(headrace("graph", "show", "g", "--json")) == graphs.chain("pass", 1)
    template_id = headrace("vnf", "templates", "add", str(tmp_path / "t.json")).strip()
    assert "RE" in headrace("vnf", "templates", "list")
    refused = headrace("vnf", "images", "put", template_id, str(tmp_path / "over.qcow2"), code=1)
    assert "backing file" in refused
    headrace("vnf", "images", "put", template_id, str(image))
    (listed,) = json.loads(headrace("vnf", "images", "list", "--json"))
    assert (listed["format"], listed["size"]) == ("raw", image.stat().st_size)
    back = ("get", template_id, str(tmp_path / "back"), "--json")
    said = json.loads(headrace("vnf", "images", *back))
    assert (said["id"], said["size"]) == (template_id, image.stat().st_size)
    assert (tmp_path / "back").read_bytes() == image.read_bytes()
    assert json.loads(headrace("vnf", "templates", "show", template_id)) == MACHINE
    replaced = ("replace", template_id, str(tmp_path / "t.json"), "--json")
    assert json.loads(headrace("vnf", "templates", *replaced)) == {"id": template_id}
    for what, name in (("vnf images", template_id), ("vnf templates", template_id), ("graph", "g")):
        said = headrace(*what.split(), "delete", name, "--json")
        assert json.loads(said) == {"deleted": name}
    headrace("down")
