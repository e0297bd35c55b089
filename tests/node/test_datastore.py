# SPDX-License-Identifier: Apache-2.0
"""Templates and images of clients: written, read, checked, bounded, and whose they are."""

import base64
import copy
import gzip
import hashlib
import io
import json
import os
import shutil
import struct
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from headrace.machine.disk_images import ImageError, inspect
from headrace.machine.places import image_directory
from headrace.node.access.users import Quota, User, hash_of
from headrace.node.config import from_dict
from headrace.node.errors import ConfigError
from tests.guest.images import Image, Layer
from tests.node import disks, graphs
from tests.node.api import Api, api_of

FIREWALL: dict[str, Any] = {
    "name": "my firewall",
    "functional-capability": "guard",
    "vnf-type": "dpdk",
    "uri-image": "headrace:firewall",
    "uri-image-type": "local-file",
    "memory-size": 128,
    "CPUrequirements": {"platformType": "x86", "socket": [{"coreNumbers": 1}]},
    "ports": [{"position": "1-2", "label": "inside", "name": "eth", "min": "2"}],
}
MACHINE: dict[str, Any] = {
    **FIREWALL,
    "name": "guest",
    "functional-capability": "guest",
    "vnf-type": "virtual-machine-kvm",
    "uri-image": "",
}
OCTETS = {"content-type": "application/octet-stream"}
needs_qemu_img = pytest.mark.skipif(shutil.which("qemu-img") is None, reason="needs qemu-img")


async def added(api: Api, template: dict[str, Any]) -> str:
    answer = await api("PUT", "/v2/nf_template/", template)
    assert answer.status_code == 200, answer.text
    assert answer.text.isalnum() and len(answer.text) == 6
    return answer.text


async def put(api: Api, template_id: str, octets: bytes, **headers: str) -> httpx.Response:
    path = f"/v2/nf_image/{template_id}/"
    return await api.http.put(path, content=octets, headers={**OCTETS, **headers})


# Templates.


async def test_a_template_is_written_read_changed_and_removed(api: Api) -> None:
    own = {**FIREWALL, "colour": ["any", {"key": 1}]}
    template_id = await added(api, own)
    assert (await api("GET", f"/v2/nf_template/{template_id}/")).json() == own
    entry = {"id": template_id, "template": own, "image-upload-status": "CO"}
    assert entry in (await api("GET", "/v2/nf_template/")).json()["list"]
    assert (await api("GET", "/v2/nf_capability/guard/")).json()["list"] == [entry]
    wrapped = {"template": {**own, "name": "other"}, "image-upload-status": "RE"}
    assert (await api("PUT", f"/v2/nf_template/{template_id}/", wrapped)).status_code == 200
    assert (await api("GET", f"/v2/nf_template/{template_id}")).json()["name"] == "other"
    assert (await api("DELETE", f"/v2/nf_template/{template_id}/")).status_code == 200
    for method in ("GET", "DELETE"):
        assert (await api(method, f"/v2/nf_template/{template_id}")).status_code == 404
    assert (await api("PUT", f"/v2/nf_template/{template_id}", own)).status_code == 404
    assert (await api("GET", "/v2/nf_capability/guard")).status_code == 404


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"vnf-type": "vmware"}, "vnf-type"),
        ({"ports": []}, "ports"),
        ({"ports": [{"position": "x", "label": "a", "min": "1"}]}, "ports[0].position"),
        ({"memory-size": -1}, "memory-size"),
        ({"CPUrequirements": {"socket": [{"coreNumbers": "many"}]}}, "CPUrequirements"),
        ({"name": None, "functional-capability": None}, "one of them is needed"),
    ],
)
async def test_what_is_no_template_is_400(api: Api, change: dict[str, Any], place: str) -> None:
    answer = await api("PUT", "/v2/nf_template/", {**FIREWALL, **change})
    assert answer.status_code == 400 and place in answer.json()["message"], answer.text


async def test_templates_of_the_files_stay(api: Api) -> None:
    for method, body in (("PUT", FIREWALL), ("DELETE", None)):
        answer = await api(method, "/v2/nf_template/firewall", body)
        assert answer.status_code == 403 and "node's files" in answer.json()["message"]


async def test_every_template_that_the_node_shows_can_be_brought_back(api: Api) -> None:
    listed = (await api("GET", "/v2/nf_template")).json()["list"]
    for entry in listed:
        template_id = await added(api, entry["template"])
        like = api.node.datastore.templates().get(entry["id"])
        made = api.node.datastore.templates().get(template_id)
        assert made is not None and like is not None
        for field in ("engine", "function", "cores", "memory_mb", "graph_may_set", "configuration"):
            assert getattr(made, field) == getattr(like, field), entry["id"]


async def test_older_templates_are_understood(api: Api) -> None:
    older = copy.deepcopy(FIREWALL)
    older["uri"], older["uri-type"] = older.pop("uri-image"), older.pop("uri-image-type")
    older["CPUrequirements"] = {"socket": [{"coreNumbers": "1"}]}
    older["ports"] = [
        {"position": "0-0", "label": "in", "min": "1", "name": "a"},
        {"position": "1-N", "label": "out", "min": "1", "name": "b"},
    ]
    template_id = await added(api, older)
    template = api.node.datastore.templates().get(template_id)
    assert template is not None and template.engine == "process"
    assert (template.ports.min, template.ports.labels) == (2, ("in", "out"))


async def test_a_graph_of_a_clients_template(api: Api) -> None:
    template_id = await added(api, FIREWALL)
    document = graphs.chain(template_id, 1)
    document["forwarding-graph"]["VNFs"][0]["configuration"] = {"default": "deny"}
    assert (await api("PUT", "/NF-FG/g", document)).status_code == 201
    (vnf,) = api.world.read()["vnfs"].values()
    assert (vnf["function"], vnf["memory_mb"]) == ("firewall", 128)
    answer = await api("DELETE", f"/v2/nf_template/{template_id}")
    assert answer.status_code == 409 and "graph 'g' uses" in answer.json()["message"]
    assert (await api("DELETE", "/NF-FG/g")).status_code == 204
    assert (await api("DELETE", f"/v2/nf_template/{template_id}")).status_code == 200


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"vnf-type": "docker", "uri-image": "/etc"}, "its image is missing"),
        (
            {
                "vnf-type": "docker",
                "uri-image": "registry.example.org/nat",
                "uri-image-type": "docker-registry",
            },
            "images may not come from https://registry.example.org",
        ),
        (
            {"vnf-type": "docker", "uri-image": "nat", "uri-image-type": "docker-registry"},
            "docker://HOST[:PORT]/NAME",
        ),
        ({"vnf-type": "native", "uri-image": "/x.tar.gz"}, "its image is missing"),
        ({"vnf-type": "onos-application", "uri-image": "a"}, "images of type onos-application"),
        ({"uri-image": "/usr/bin/dpdk-testpmd"}, "images of type dpdk"),
        ({"uri-image": "headrace:nosuch"}, "no function 'nosuch' of type dpdk"),
        ({"vnf-type": "native"}, "no function 'firewall' of type native"),
        ({"vnf-type": "virtual-machine-kvm", "uri-image": "/etc/shadow"}, "its image is missing"),
    ],
)
async def test_what_cannot_be_run_is_kept_and_says_why(
    api: Api, change: dict[str, Any], why: str
) -> None:
    template_id = await added(api, {**FIREWALL, **change})
    for named in ({"vnf_template": template_id}, {"functional-capability": "guard"}):
        document = graphs.chain("pass", 1)
        vnf = document["forwarding-graph"]["VNFs"][0]
        del vnf["vnf_template"]
        vnf.update(named)
        answer = await api("PUT", "/NF-FG/g", document)
        assert answer.status_code == 400 and why in answer.json()["message"], answer.text


# What is an image.


@needs_qemu_img
def test_images_that_name_other_files_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "image"
    for octets, why in (
        (disks.with_backing(tmp_path), "backing file"),
        (disks.with_data_file(tmp_path), "external data file"),
    ):
        file.write_bytes(octets)
        with pytest.raises(ImageError, match=why):
            inspect(file, 1 << 40)
    good = disks.qcow2(tmp_path, disks.boots("x"))
    for version in ("0.10", "1.1"):
        old = disks.qcow2(tmp_path, disks.boots("x"), "-o", f"compat={version}")
        file.write_bytes(old)
        assert inspect(file, 1 << 20).format == "qcow2"
    changes: list[tuple[int, str, int, str]] = [
        (4, ">I", 1, "qcow version 1"),
        (8, ">Q", 1 << 20, "backing file"),
        (16, ">I", 9, "backing file"),
        (20, ">I", 60, "damaged"),
        (24, ">Q", 0, "empty"),
        (24, ">Q", 2 << 20, "2097152 octets, 1048576 are allowed"),
        (32, ">I", 2, "encrypted"),
        (72, ">Q", 1 << 0, "not closed"),
        (72, ">Q", 1 << 1, "corrupt"),
        (72, ">Q", 1 << 2, "external data file"),
        (72, ">Q", 1 << 40, "features that are not known"),
        (100, ">I", 1 << 30, "damaged"),
    ]
    for place, form, value, why in changes:
        changed = bytearray(good)
        struct.pack_into(form, changed, place, value)
        file.write_bytes(changed)
        with pytest.raises(ImageError, match=why):
            inspect(file, 1 << 20)
    header = struct.unpack_from(">I", good, 100)[0]
    named = good[:header] + struct.pack(">II", 0x44415441, 8) + b"/etc/pwd" + good[header + 16 :]
    for octets, why in ((named, "external data file"), (good[:40], "cut off")):
        file.write_bytes(octets)
        with pytest.raises(ImageError, match=why):
            inspect(file, 1 << 20)


def test_raw_images_and_what_only_looks_so(tmp_path: Path) -> None:
    file = tmp_path / "image"
    raw = disks.boots("x")
    file.write_bytes(raw)
    assert inspect(file, len(raw)).virtual_size == len(raw)
    with pytest.raises(ImageError, match="are allowed"):
        inspect(file, len(raw) - 1)
    for octets in (
        b"",
        raw[:-1],
        b"KDMV" + raw[4:],
        b"# Disk DescriptorFile\n".ljust(512),
        raw[:64] + b"\x7f\x10\xda\xbe" + raw[68:],
        b"\x1f\x8b".ljust(512),
        raw[:257] + b"ustar" + raw[262:],
    ):
        file.write_bytes(octets)
        with pytest.raises(ImageError):
            inspect(file, 1 << 40)


# Images on their way in.


async def test_an_image_as_one_body(api: Api, rundir: Path) -> None:
    template_id = await added(api, MACHINE)
    listed = (await api("GET", "/v2/nf_capability/guest")).json()["list"]
    assert [entry["image-upload-status"] for entry in listed] == ["RE"]
    raw = disks.boots("hello")
    digest = base64.b64encode(hashlib.sha256(raw).digest()).decode()
    wrong = base64.b64encode(bytes(32)).decode()
    answer = await put(api, template_id, raw, **{"repr-digest": f"sha-256=:{wrong}:"})
    assert answer.status_code == 400 and "sha256 of what came" in answer.json()["message"]
    assert (await put(api, template_id, raw, **{"repr-digest": "md5=:x:"})).status_code == 400
    answer = await put(api, template_id, raw, **{"repr-digest": f"sha-256=:{digest}:"})
    assert answer.status_code == 200
    assert answer.json()["sha256"] == hashlib.sha256(raw).hexdigest()
    read = await api("GET", f"/v2/nf_image/{template_id}/")
    assert read.content == raw and read.headers["repr-digest"] == f"sha-256=:{digest}:"
    assert (await api("GET", "/v2/nf_image")).json()["list"] == [answer.json()]
    template = api.node.datastore.templates().get(template_id)
    assert template is not None and template.engine == "vm"
    assert template.configuration["format"] == "raw"
    (file,) = image_directory(rundir).iterdir()
    assert file.stat().st_mode & 0o777 == 0o600 and str(file) == template.configuration["disk"]
    assert (await api("DELETE", f"/v2/nf_image/{template_id}/")).status_code == 200
    assert (await api("GET", f"/v2/nf_image/{template_id}")).status_code == 404
    assert list(image_directory(rundir).iterdir()) == []


@needs_qemu_img
async def test_an_image_with_a_backing_file_leaves_nothing(api: Api, rundir: Path) -> None:
    template_id = await added(api, MACHINE)
    answer = await put(api, template_id, disks.with_backing(rundir))
    assert answer.status_code == 400 and "backing file" in answer.json()["message"]
    assert list(image_directory(rundir).iterdir()) == []
    assert (await api("GET", "/v2/nf_image")).json() == {"list": []}


@pytest.mark.parametrize("form", [True, False])
async def test_chunks(api: Api, form: bool) -> None:
    """As django-chunked-upload's clients send them, and as plain bodies."""
    template_id = await added(api, MACHINE)
    raw = disks.boots("hello")
    path, size = "/v2/nf_image/chunked_upload/", 300_000
    upload = ""

    async def send(begin: int, octets: bytes) -> httpx.Response:
        span = f"bytes {begin}-{begin + len(octets) - 1}/{len(raw)}"
        fields = {"vnf_id": template_id, **({"upload_id": upload} if upload else {})}
        if not form:
            headers = {**OCTETS, "content-range": span}
            return await api.http.post(path, params=fields, content=octets, headers=headers)
        files = {"the_file": ("disk.img", octets)}
        headers = {"content-range": span}
        return await api.http.post(path, data=fields, files=files, headers=headers)

    for begin in range(0, len(raw), size):
        part = raw[begin : begin + size]
        answer = await send(begin, part)
        assert answer.status_code == 200, answer.text
        upload = answer.json()["upload_id"]
        assert answer.json()["offset"] == begin + len(part)
        if begin == size:  # twice the same part: refused, and nothing of it is kept
            again = await send(begin, part)
            assert again.status_code == 400 and "go on from there" in again.json()["message"]
            bad = {**OCTETS, "content-range": f"bytes {begin + size}-{begin + 2 * size}/*"}
            params = {"upload_id": upload}
            short = await api.http.post(path, params=params, content=b"x" * 9, headers=bad)
            assert short.status_code == 400 and "9 octets came" in short.json()["message"]
    status = (await api("GET", "/v2/nf_capability/guest")).json()["list"][0]
    assert status["image-upload-status"] == "IP"
    done = {"upload_id": upload, "md5": hashlib.md5(raw).hexdigest()}
    complete = "/v2/nf_image/chunked_upload_complete/"
    answer = await (api.http.post(complete, data=done) if form else api("POST", complete, done))
    assert answer.status_code == 200, answer.text
    assert answer.json()["vnf_id"] == template_id
    assert (await api("GET", f"/v2/nf_image/{template_id}")).content == raw
    assert (await api("POST", complete, done)).status_code == 404


async def test_uploads_that_fail(api: Api, rundir: Path) -> None:
    template_id = await added(api, MACHINE)
    path = "/v2/nf_image/chunked_upload"
    no_template = await api.http.post(path, params={"vnf_id": "none"}, content=b"x", headers=OCTETS)
    assert no_template.status_code == 404
    begun = await api.http.post(path, params={"vnf_id": template_id}, content=b"x", headers=OCTETS)
    upload = begun.json()["upload_id"]
    complete = "/v2/nf_image/chunked_upload_complete"
    for body in ({"upload_id": upload}, {"upload_id": upload, "md5": "0" * 32}):
        assert (await api("POST", complete, body)).status_code == 400
    for kind, content in (
        ("multipart/form-data", b""),
        ("multipart/form-data; boundary=x", b"garbage"),
        ("multipart/form-data; boundary=x", b"--x\r\nContent-Disposition: form-data"),
        ("multipart/form-data; boundary=x", b"--x\r\nA: " + b"b" * 100_000),
        ("application/octet-stream", b""),
    ):
        headers = {"content-type": kind}
        answer = await api.http.put(f"/v2/nf_image/{template_id}", content=content, headers=headers)
        assert answer.status_code == 400, (kind, content[:20], answer.text)
    assert list(image_directory(rundir).iterdir()) == []


async def test_forms_of_other_places_are_kept_out(api: Api) -> None:
    template_id = await added(api, MACHINE)
    files = {"file": ("disk.img", disks.boots("x"))}
    path = f"/v2/nf_image/{template_id}"
    for headers in ({"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}):
        assert (await api.http.put(path, files=files, headers=headers)).status_code == 403
    assert (await api.http.put("/NF-FG/g", files=files)).status_code == 415
    plain = {"content-type": "text/plain"}
    assert (await api.http.put(path, content=b"x", headers=plain)).status_code == 415
    assert (await api.http.put(path, files=files)).status_code == 200


# Limits, and whose what is.


@pytest.fixture
async def site(rundir: Path) -> AsyncIterator[Api]:
    async for api in api_of(rundir, rest={"login": True}, datastore={"max_mb": 5, "image_mb": 3}):
        hashed = hash_of("the password")
        api.node.users.add_group("one")
        for name, group, quota in (
            ("ann", "one", Quota(images_mb=2)),
            ("bob", "one", Quota()),
            ("root", "admin", Quota()),
        ):
            api.node.users.add(User(name, group, quota), hashed)
        yield api


async def ask(api: Api, who: str, method: str, path: str, body: Any = None) -> httpx.Response:
    token = api.node.users.give_token(who)
    raw = isinstance(body, bytes)
    headers = {"x-auth-token": token, **(OCTETS if raw else {"content-type": "application/json"})}
    content = body if raw else json.dumps(body).encode() if body is not None else None
    return await api.http.request(method, path, content=content, headers=headers)


async def test_sizes_are_bounded(site: Api, rundir: Path) -> None:
    ids = {}
    for who in ("ann", "bob", "root"):
        ids[who] = (await ask(site, who, "PUT", "/v2/nf_template", MACHINE)).text
    megabyte = bytes(1 << 20)

    async def send(who: str, octets: bytes) -> httpx.Response:
        return await ask(site, who, "PUT", f"/v2/nf_image/{ids[who]}", octets)

    answer = await send("root", megabyte * 3 + bytes(512))
    assert answer.status_code == 413 and "image_mb" in answer.json()["message"]
    answer = await send("ann", megabyte * 2 + bytes(512))
    assert answer.status_code == 413 and "max_images_mb" in answer.json()["message"]
    assert (await send("ann", megabyte * 2)).status_code == 200
    assert (await send("ann", megabyte)).status_code == 413  # both would be on the disk
    assert (await send("bob", megabyte * 3)).status_code == 200
    answer = await send("root", bytes(512))
    assert answer.status_code == 413 and "max_mb" in answer.json()["message"]
    assert (await ask(site, "bob", "DELETE", f"/v2/nf_image/{ids['bob']}")).status_code == 200
    assert (await send("root", bytes(512))).status_code == 200
    assert sum(file.stat().st_size for file in image_directory(rundir).iterdir()) == (2 << 20) + 512


async def test_templates_and_images_are_their_owners(site: Api) -> None:
    template_id = (await ask(site, "ann", "PUT", "/v2/nf_template", MACHINE)).text
    path, image = f"/v2/nf_template/{template_id}", f"/v2/nf_image/{template_id}"
    raw = disks.boots("x")
    chunk = f"/v2/nf_image/chunked_upload?vnf_id={template_id}"
    for who, code in (("bob", 403), ("root", 200), ("ann", 200)):
        assert (await ask(site, who, "PUT", path, MACHINE)).status_code == code
        assert (await ask(site, who, "PUT", image, raw)).status_code == code
        assert (await ask(site, who, "POST", chunk, b"x")).status_code == code
        assert (await ask(site, who, "GET", path)).status_code == 200
        assert (await ask(site, who, "GET", image)).status_code == (404 if who == "bob" else 200)
    assert (await ask(site, "bob", "GET", image)).status_code == 200
    upload = (await ask(site, "ann", "POST", chunk, b"x")).json()["upload_id"]
    for who in ("bob", "root"):
        other = await ask(site, who, "POST", f"{chunk}&upload_id={upload}", raw)
        assert other.status_code == 404
    for who, code in (("bob", 403), ("ann", 200)):
        assert (await ask(site, who, "DELETE", image)).status_code == code
        assert (await ask(site, who, "DELETE", path)).status_code == code
    assert (await site.http.get("/v2/nf_template")).status_code == 401


async def test_uploads_at_once_are_few(site: Api) -> None:
    template_id = (await ask(site, "bob", "PUT", "/v2/nf_template", MACHINE)).text
    path = f"/v2/nf_image/chunked_upload?vnf_id={template_id}"
    codes = [(await ask(site, "bob", "POST", path, b"x")).status_code for _ in range(18)]
    assert codes == [200] * 16 + [403] * 2


async def test_templates_outlive_the_node(rundir: Path) -> None:
    ids: list[str] = []
    async for api in api_of(rundir):
        ids.append(await added(api, MACHINE))
        assert (await put(api, ids[0], disks.boots("x"))).status_code == 200
        headers = {**OCTETS}
        path = f"/v2/nf_image/chunked_upload?vnf_id={ids[0]}"
        assert (await api.http.post(path, content=b"x", headers=headers)).status_code == 200
        (image_directory(rundir) / ("0" * 64)).touch()  # what nothing refers to
    async for api in api_of(rundir):
        assert (await api("GET", f"/v2/nf_image/{ids[0]}")).content == disks.boots("x")
        assert len(list(image_directory(rundir).iterdir())) == 1
        for file in image_directory(rundir).iterdir():
            os.unlink(file)
        document = graphs.chain(ids[0], 1)
        api.node.datastore._known = None
        answer = await api("PUT", "/NF-FG/g", document)
        assert answer.status_code == 400 and "its image is lost" in answer.json()["message"]


# Another datastore.


class Other:
    """A datastore elsewhere: one more node."""

    def __init__(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        self.api = api
        self.asked: list[str] = []
        self.down = False

        def answer(request: httpx.Request) -> None:
            self.asked.append(request.url.path)
            if self.down:
                raise httpx.ConnectError("refused")

        async def hook(request: httpx.Request) -> None:
            answer(request)

        def client() -> httpx.AsyncClient:
            transport = api.http._transport
            return httpx.AsyncClient(transport=transport, event_hooks={"request": [hook]})

        monkeypatch.setattr("headrace.node.datastore.remote._client", client)


@pytest.fixture
async def other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Other]:
    async for api in api_of(tmp_path):
        yield Other(api, monkeypatch)


async def test_templates_and_images_of_another_datastore(rundir: Path, other: Other) -> None:
    ids = [await added(other.api, template) for template in (FIREWALL, MACHINE)]
    raw = disks.boots("x")
    assert (await put(other.api, ids[1], raw)).status_code == 200
    async for api in api_of(rundir, datastore={"url": "http://localhost/"}):
        assert (await api("PUT", "/NF-FG/g", graphs.chain(ids[0], 1))).status_code == 201
        assert (await api("GET", f"/v2/nf_template/{ids[0]}")).json() == FIREWALL
        assert (await api("PUT", "/NF-FG/g", graphs.chain("pass", 1))).status_code == 202
        assert f"/v2/nf_template/{ids[0]}/" in other.asked
        assert "/v2/nf_template/pass/" not in other.asked
        # By its capability, with its image; the fake node has no engine for machines.
        assert (await api("DELETE", "/NF-FG/g")).status_code == 204
        document = graphs.chain("pass", 1)
        vnf = document["forwarding-graph"]["VNFs"][0]
        del vnf["vnf_template"]
        vnf["functional-capability"] = "guest"
        answer = await api("PUT", "/NF-FG/h", document)
        assert answer.status_code == 400 and "engine vm" in answer.json()["message"]
        assert (await api("GET", f"/v2/nf_image/{ids[1]}")).content == raw
        # What is changed there is fetched anew; what can't be had now is what it was.
        changed = {**FIREWALL, "memory-size": 96}
        assert (await other.api("PUT", f"/v2/nf_template/{ids[0]}", changed)).status_code == 200
        assert (await api("PUT", "/NF-FG/g", graphs.chain(ids[0], 1))).status_code == 201
        other.down = True
        assert (await api("PUT", "/NF-FG/g", graphs.chain(ids[0], 1))).status_code == 202
        (held,) = api.world.read()["vnfs"].values()
        assert held["memory_mb"] == 96
        answer = await api("PUT", "/NF-FG/i", graphs.chain("none", 1))
        assert answer.status_code == 400 and "refused" in answer.json()["message"]


async def test_a_template_does_not_make_the_node_ask_anybody(rundir: Path, other: Other) -> None:
    async for api in api_of(rundir, datastore={"url": "http://localhost:8081"}):
        for url in (
            "http://169.254.169.254/latest",
            "http://localhost:8081@evil.example/x",
            "http://localhost:80/node",
            "file:///etc/shadow",
        ):
            template = {**MACHINE, "uri-image": url, "uri-image-type": "remote-file"}
            template_id = await added(api, template)
            answer = await api("PUT", "/NF-FG/g", graphs.chain(template_id, 1))
            assert answer.status_code == 400 and "image is missing" in answer.json()["message"]
        assert other.asked == []
        held = await added(
            api, {**MACHINE, "uri-image": "http://localhost:8081/big", "name": "big"}
        )
        assert (await api("PUT", "/NF-FG/g", graphs.chain(held, 1))).status_code == 400
        assert other.asked == ["/big"]


async def test_a_datastore_that_answers_nonsense(rundir: Path, other: Other) -> None:
    class Nonsense(httpx.AsyncBaseTransport):
        async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
            other.asked.append(request.url.path)
            return httpx.Response(**answers[0])

    answers: list[dict[str, Any]] = []
    other.api.http._transport = Nonsense()
    async for api in api_of(rundir, datastore={"url": "http://localhost"}):
        for answer in (
            {"status_code": 200, "content": b"{"},
            {"status_code": 200, "content": b"[]"},
            {"status_code": 200, "content": b"x" * (5 << 20)},
            {"status_code": 500},
            {"status_code": 302, "headers": {"location": "http://169.254.169.254/"}},
        ):
            answers[:] = [answer]
            refused = await api("PUT", "/NF-FG/g", graphs.chain("X12345", 1))
            assert refused.status_code == 400, (answer, refused.text)
    assert set(other.asked) == {"/v2/nf_template/X12345/"}


def test_an_origin_is_one() -> None:
    for url in ("ftp://x", "localhost", "http://", "http://x?y"):
        with pytest.raises(ConfigError, match="is no http"):
            from_dict({"datastore": {"url": url}})


# Images of containers and archives of native functions.


def archive(*names: str, zipped: bool = True) -> bytes:
    """A tar with these files."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 2
            tar.addfile(entry, io.BytesIO(b"#!"))
    return gzip.compress(out.getvalue()) if zipped else out.getvalue()


def container(form: str, directory: Path) -> bytes:
    place = directory / "image"
    Image(Layer().directory("bin"), Cmd=["/bin/x"]).write(place, form)
    return place.read_bytes()


@pytest.mark.parametrize(
    ("kind", "form", "engine", "key"),
    [
        ("docker", "oci-archive", ("container", "image"), "image"),
        ("docker", "docker-archive", ("container", "image"), "image"),
        ("native", "archive", ("native", "archive"), "archive"),
    ],
)
async def test_images_of_containers_and_native_functions(
    api: Api, tmp_path: Path, kind: str, form: str, engine: tuple[str, str], key: str
) -> None:
    wire = {**FIREWALL, "vnf-type": kind, "uri-image": "", "functional-capability": "theirs"}
    template_id = await added(api, wire)
    (entry,) = (await api("GET", "/v2/nf_capability/theirs")).json()["list"]
    assert entry["image-upload-status"] == "RE"
    octets = archive("./start", "stop") if kind == "native" else container(form, tmp_path)
    stored = await put(api, template_id, octets)
    assert stored.status_code == 200 and stored.json()["format"] == form, stored.text
    template = api.node.datastore.templates().get(template_id)
    assert template is not None and (template.engine, template.function) == engine
    digest = hashlib.sha256(octets).hexdigest()
    assert template.configuration[key] == str(image_directory(api.node.rundir) / digest)
    assert template.graph_may_forward == "any" and "addresses" in template.graph_may_set
    assert key not in template.graph_may_set
    (entry,) = (await api("GET", "/v2/nf_capability/theirs")).json()["list"]
    assert entry["image-upload-status"] == "CO" and entry["template"]["vnf-type"] == kind
    # Of another type it would be another image.
    changed = {**wire, "vnf-type": "virtual-machine-kvm"}
    assert (await api("PUT", f"/v2/nf_template/{template_id}", changed)).status_code == 200
    assert api.node.datastore.image(template_id) is None


@pytest.mark.parametrize(
    ("kind", "octets", "why"),
    [
        ("docker", b"no tar", "no uncompressed tar of an image"),
        ("docker", archive("start"), "no uncompressed tar of an image"),
        ("docker", archive("start", zipped=False), "has no manifest.json"),
        ("native", b"no tar" * 1000, "no tar or tar.gz"),
        ("native", archive("start")[:-30], "no tar or tar.gz"),
        ("native", archive("stop"), "no file `start` at its top"),
        ("native", archive("bin/start"), "no file `start` at its top"),
        ("dpdk", b"\x7fELF", "a template of type dpdk has no image"),
    ],
)
async def test_what_is_no_image_of_its_type_is_refused(
    api: Api, kind: str, octets: bytes, why: str
) -> None:
    template_id = await added(api, {**FIREWALL, "vnf-type": kind, "uri-image": ""})
    answer = await put(api, template_id, octets)
    assert answer.status_code == 400 and why in answer.json()["message"], answer.text
    assert str(api.node.rundir) not in answer.text
    assert api.node.datastore.images() == []


@pytest.mark.parametrize(("kind", "engine"), [("docker", "container"), ("native", "native")])
async def test_they_come_from_another_datastore_too(
    rundir: Path, tmp_path: Path, other: Other, kind: str, engine: str
) -> None:
    template_id = await added(other.api, {**FIREWALL, "vnf-type": kind, "uri-image": ""})
    octets = archive("start") if kind == "native" else container("oci-archive", tmp_path)
    assert (await put(other.api, template_id, octets)).status_code == 200
    async for api in api_of(rundir, datastore={"url": "http://localhost/"}):
        answer = await api("PUT", "/NF-FG/g", graphs.chain(template_id, 1))
        # The fake node has no such engine; it has the image.
        assert answer.status_code == 400 and f"engine {engine}" in answer.json()["message"]
        assert (await api("GET", f"/v2/nf_image/{template_id}")).content == octets


async def test_a_registry_that_the_operator_has_named(rundir: Path) -> None:
    origins = {"datastore": {"image_origins": ["https://registry.example.org"]}}
    async for api in api_of(rundir, **origins):
        template_id = await added(
            api,
            {
                **FIREWALL,
                "vnf-type": "docker",
                "uri-image": "registry.example.org/lab/nat:1",
                "uri-image-type": "docker-registry",
            },
        )
        template = api.node.datastore.templates().get(template_id)
        assert template is not None
        assert template.configuration["image"] == "docker://registry.example.org/lab/nat:1"
        assert api.node.datastore.status(template_id) == "CO"


async def test_unpacked_images_of_an_earlier_version_are_in_nobodys_way(rundir: Path) -> None:
    left = image_directory(rundir) / ("0" * 64) / "rootfs"
    left.mkdir(parents=True)
    (left / "file").write_bytes(b"x")
    async for api in api_of(rundir):
        assert (await api("GET", "/v2/nf_image")).json() == {"list": []}
        assert not left.exists()
