# SPDX-License-Identifier: Apache-2.0
"""Images as anyone may make them: every form and registry, and what must not get out of one."""

from __future__ import annotations

import gzip
import json
import os
import stat
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.engines.images import ImageError
from headrace.engines.images.cache import ImageCache
from headrace.engines.images.layers import Budget
from headrace.engines.images.registry import reference
from tests.guest.images import Image, Layer, digest

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: files of several users"),
]


def unpacked(tmp_path: Path, *layers: Layer | bytes, **config: Any) -> Path:
    image = Image(*layers, **config).write(tmp_path / "image", "directory")
    return ImageCache(tmp_path / "cache").get(str(image), None).rootfs


def listing(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize("form", ["directory", "oci-archive", "docker-archive"])
def test_every_form_of_an_image_unpacks_alike(tmp_path: Path, form: str, zipped: bool) -> None:
    low = Layer().directory("etc").add("etc/a", b"low", uid=7, gid=8, mode=0o4750)
    high = Layer().add("./etc/b", b"high").link("lib", "usr/lib").directory("srv", 0o1777)
    image = Image(low, high, zipped=zipped, Cmd=["/bin/a"], Entrypoint=None, Env=["A=b"])
    place = image.write(tmp_path / "image", form)
    cache = ImageCache(tmp_path / "cache")
    found = cache.get(str(place), None)
    assert listing(found.rootfs) == ["etc", "etc/a", "etc/b", "lib", "srv"]
    status = (found.rootfs / "etc/a").stat()
    assert (status.st_uid, status.st_gid) == (7, 8)
    assert stat.S_IMODE(status.st_mode) == 0o750  # not with another's rights
    assert stat.S_IMODE((found.rootfs / "srv").stat().st_mode) == 0o1777
    assert (found.rootfs / "lib").readlink() == Path("usr/lib")
    assert found.configuration.config.cmd == ("/bin/a",)
    before = (found.rootfs / "etc/b").stat().st_ino
    assert cache.get(str(place), None).rootfs == found.rootfs
    assert (found.rootfs / "etc/b").stat().st_ino == before  # unpacked once


def test_layers_lie_over_each_other(tmp_path: Path) -> None:
    low = Layer().directory("a").add("a/gone", b"1").add("a/stays", b"1").directory("opaque")
    low.directory("opaque/below").add("opaque/below/x", b"1").add("file", b"1").add("d/f", b"1")
    high = Layer().add("a/.wh.gone").add("opaque/new", b"2").add("opaque/.wh..wh..opq")
    high.directory("file").add("file/inside", b"2").add("d", b"now a file").add(".wh.never")
    root = unpacked(tmp_path, low, high)
    found = ["a", "a/stays", "d", "file", "file/inside", "opaque", "opaque/new"]
    assert listing(root) == found
    assert (root / "d").read_bytes() == b"now a file"


HOSTILE: dict[str, Layer] = {
    "dots": Layer().add("../planted", b"x"),
    "dots within": Layer().directory("a").add("a/../../planted", b"x"),
    "dots in a whiteout": Layer().add(".wh..", b""),
    "dots in a link": Layer().link("a", "../../victim/secret", tarfile.LNKTYPE),
    "a link to nothing": Layer().link("a", "nothing", tarfile.LNKTYPE),
    "a link to a device": Layer().directory("d").link("a", "d", tarfile.LNKTYPE),
    "a loop": Layer().link("a", "b").link("b", "a").add("a/f", b"x"),
    "a user beyond": Layer().add("a", b"x", uid=4_000_000),
    "a long name": Layer().add("a" * 300, b"x"),
    "a deep path": Layer().add("a/" * 200 + "b", b"x"),
    "a long header": Layer().add("a", b"x", pax_headers={"comment": "x" * (2 << 20)}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_no_image_may_have_is_refused_and_leaves_nothing(tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "secret").write_text("secret")
    with pytest.raises(ImageError):
        unpacked(tmp_path, HOSTILE[name])
    assert listing(victim) == ["secret"]
    assert sorted(os.listdir(tmp_path / "cache")) == ["lock"]
    assert not list(tmp_path.rglob("planted"))


@pytest.mark.parametrize("target", ["/{victim}", "../../../../../../../../{victim}"])
def test_links_lead_nowhere_but_into_the_image(tmp_path: Path, target: str) -> None:
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "secret").write_text("secret")
    out = target.format(victim=str(victim).lstrip("/"))
    hostile = Layer().link("way", out).add("way/planted", b"x").add("way/.wh.secret")
    hostile.link("dir", out).directory("dir", 0o777).add("way/.wh..wh..opq")
    hostile.link("hard", f"{out}/secret".lstrip("/").replace("../", ""), tarfile.LNKTYPE)
    with pytest.raises(ImageError, match="no file"):  # at the hard link, the last
        unpacked(tmp_path, hostile)
    hostile.entries.pop()
    root = unpacked(tmp_path, hostile)
    assert listing(victim) == ["secret"]
    assert stat.S_IMODE(victim.stat().st_mode) == 0o755
    assert (root / str(victim).lstrip("/")).is_dir()  # within the image
    assert stat.S_ISDIR((root / "dir").lstat().st_mode)


def test_devices_are_left_out(tmp_path: Path) -> None:
    device: dict[str, Any] = {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 5}
    root = unpacked(tmp_path, Layer().add("dev/zero", **device).add("p", type=tarfile.FIFOTYPE))
    assert listing(root) == ["dev"]


def test_a_bomb_is_refused_while_it_is_read(tmp_path: Path) -> None:
    bomb = Image(Layer().add("zeros", bytes(64 << 20)))
    assert len(bomb.stored[0]) < 1 << 20
    place = bomb.write(tmp_path / "image", "directory")
    with pytest.raises(ImageError, match="larger"):
        ImageCache(tmp_path / "cache", Budget(octets=1 << 20)).get(str(place), None)
    many = Layer()
    for number in range(200):
        many.add(f"f{number}")
    place = Image(many).write(tmp_path / "many", "directory")
    with pytest.raises(ImageError, match="larger"):
        ImageCache(tmp_path / "cache", Budget(entries=100)).get(str(place), None)
    assert sorted(os.listdir(tmp_path / "cache")) == ["lock"]


@pytest.mark.parametrize("what", ["layer", "config", "manifest", "cut", "unzipped"])
def test_a_digest_that_is_wrong_is_found(tmp_path: Path, what: str) -> None:
    image = Image(Layer().add("a", b"good"), Cmd=["a"])
    if what == "unzipped":  # as stored it is right, but not what the configuration says
        other = Image(Layer().add("a", b"evil"))
        image.stored = other.stored
        image.manifest = json.dumps(
            {**json.loads(image.manifest), "layers": json.loads(other.manifest)["layers"]}
        ).encode()
    place = image.write(tmp_path / "image", "directory")
    blob = {"layer": image.stored[0], "config": image.config, "manifest": image.manifest}
    file = place / "blobs" / digest(blob.get(what, image.stored[0])).replace(":", "/")
    if what in blob:
        evil = gzip.compress(Layer().add("a", b"evil").tar())
        file.write_bytes(evil if what == "layer" else blob[what].replace(b"linux", b"linus") + b" ")
    elif what == "cut":
        file.write_bytes(image.stored[0][:-20])
    with pytest.raises(ImageError):
        ImageCache(tmp_path / "cache").get(str(place), None)
    assert sorted(os.listdir(tmp_path / "cache")) == ["lock"]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_no_damage_does_more_than_be_refused(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    tmp_path = tmp_path_factory.mktemp("damaged")
    low = Layer().directory("a").add("a/b", b"text" * 50).link("c", "a").add("c/d", b"x")
    tar = bytearray(low.tar())
    for _ in range(data.draw(st.integers(1, 8))):
        tar[data.draw(st.integers(0, min(len(tar), 4096) - 1))] = data.draw(st.integers(0, 255))
    try:
        unpacked(tmp_path, bytes(tar))
    except ImageError:
        assert sorted(os.listdir(tmp_path / "cache")) == ["lock"]
    assert sorted(os.listdir(tmp_path)) == ["cache", "image"]


class Registry(BaseHTTPRequestHandler):
    """A registry of one image, `lab/web:1`, which wants a token that it gives to anyone."""

    image: Image
    asked: list[str]

    def do_GET(self) -> None:
        self.asked.append(self.path)
        place = f"http://{self.headers['Host']}"
        if self.path.startswith("/token"):
            self._answer(200, b'{"token": "open"}', "application/json")
        elif self.headers.get("Authorization") != "Bearer open":
            realm = f'Bearer realm="{place}/token",service="lab",scope="repository:lab/web:pull"'
            self._answer(401, b"", "text/plain", **{"WWW-Authenticate": realm})
        else:
            parts = self.path.removeprefix("/v2/lab/web/").split("/")
            kind = "application/vnd.oci.image.manifest.v1+json"
            data = self.image.blobs.get(parts[-1])
            if parts == ["manifests", "1"]:
                data = self.image.manifest
            self._answer(200 if data else 404, data or b"", kind)

    def _answer(self, code: int, data: bytes, kind: str, **headers: str) -> None:
        self.send_response(code)
        for name, value in {"Content-Type": kind, **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *words: Any) -> None:
        del words


@contextmanager
def registry(image: Image) -> Iterator[tuple[str, list[str]]]:
    """A running registry; its host and port, and the paths that it was asked for."""
    asked: list[str] = []
    handler = type("Handler", (Registry,), {"image": image, "asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_port}", asked
        finally:
            server.shutdown()
            thread.join()


def test_an_image_of_a_registry_is_fetched_once(tmp_path: Path) -> None:
    image = Image(Layer().add("a", b"1"), Layer().add("b", b"2"), Cmd=["/a"])
    cache = ImageCache(tmp_path / "cache")
    with registry(image) as (host, asked):
        found = cache.get(f"docker://{host}/lab/web:1", None)
        assert listing(found.rootfs) == ["a", "b"]
        count = len(asked)
        assert cache.get(f"docker://{host}/lab/web:1", None) == found
        assert len(asked) == count
        pinned = f"docker://{host}/lab/web@{digest(image.manifest)}"
        assert cache.get(pinned, None) == found
        with pytest.raises(ImageError, match="answers 404"):
            cache.get(f"docker://{host}/lab/web:2", None)
        with pytest.raises(ImageError, match="answers 404"):
            cache.get(f"docker://{host}/lab/web@{digest(b'other')}", None)
    with pytest.raises(ImageError, match="refused"):
        cache.get(f"docker://{host}/lab/other:1", None)


def test_a_registry_that_sends_something_else_is_refused(tmp_path: Path) -> None:
    image = Image(Layer().add("a", b"1"))
    evil = gzip.compress(Layer().add("a", b"2").tar())
    for data in (evil, image.stored[0] + bytes(1 << 20)):
        blobs = {**image.blobs, digest(image.stored[0]): data}
        served = type("Served", (), {"blobs": blobs, "manifest": image.manifest})
        with registry(served) as (host, _), pytest.raises(ImageError, match=r"digest|longer"):  # type: ignore[arg-type]
            ImageCache(tmp_path / "cache").get(f"docker://{host}/lab/web:1", None)
        assert sorted(os.listdir(tmp_path / "cache")) == ["lock"]


def test_references_are_hosts_names_and_tags() -> None:
    assert reference("docker://[::1]:5000/a/b:1").url == "http://[::1]:5000/v2/a/b"
    assert reference("docker://example.org/a").url == "https://example.org/v2/a"
    assert reference("docker://example.org/a").wanted == "latest"
    for wrong in ("docker://x", "docker://x/A", "docker://x/a:b:c", "docker://u@x/a", "x/a",
                  "docker://x/a?b", "docker://x/../a", "docker://x/a@md5:00"):  # fmt: skip
        with pytest.raises(ImageError):
            reference(wrong)
