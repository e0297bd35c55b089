# SPDX-License-Identifier: Apache-2.0
"""Builds container images of Debian's busybox-static, by tar and JSON alone, in every form."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import shutil
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from headrace.machine.guests.initramfs import shared_libraries

OCI = "application/vnd.oci.image"
APPLETS = ["sh", "ip", "httpd", "wget", "sleep", "cat", "echo", "id", "ls", "nc", "ping"]


@dataclass
class Layer:
    """A layer as a tar; entries as they are given, however hostile."""

    entries: list[tuple[tarfile.TarInfo, bytes]] = field(default_factory=list)

    def add(self, name: str, data: bytes = b"", **fields: Any) -> Layer:
        """A regular file, or what `type` says."""
        entry = tarfile.TarInfo(name)
        entry.size, entry.mode = len(data), 0o644
        for key, value in fields.items():
            setattr(entry, key, value)
        self.entries.append((entry, data))
        return self

    def directory(self, name: str, mode: int = 0o755, uid: int = 0) -> Layer:
        """A directory."""
        return self.add(name, type=tarfile.DIRTYPE, mode=mode, uid=uid, gid=uid)

    def link(self, name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> Layer:
        """A symbolic link, or a hard one."""
        return self.add(name, type=kind, linkname=target)

    def tar(self) -> bytes:
        """The archive."""
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for entry, data in self.entries:
                tar.addfile(entry, io.BytesIO(data))
        return out.getvalue()


def digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Image:
    """An image of layers; `config` is what its author wants to be run."""

    def __init__(self, *layers: Layer | bytes, zipped: bool = True, **config: Any) -> None:
        tars = [one if isinstance(one, bytes) else one.tar() for one in layers]
        self.stored = [gzip.compress(tar, 1) if zipped else tar for tar in tars]
        self.config = json.dumps(
            {
                "os": "linux",
                "architecture": "amd64",
                "config": config,
                "rootfs": {"type": "layers", "diff_ids": [digest(tar) for tar in tars]},
            }
        ).encode()
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": f"{OCI}.manifest.v1+json",
                "config": self._descriptor("config.v1+json", self.config),
                "layers": [self._descriptor("layer.v1.tar+gzip", one) for one in self.stored],
            }
        ).encode()

    @staticmethod
    def _descriptor(kind: str, data: bytes) -> dict[str, Any]:
        return {"mediaType": f"{OCI}.{kind}", "digest": digest(data), "size": len(data)}

    @property
    def blobs(self) -> dict[str, bytes]:
        """All blobs by their digests."""
        return {digest(data): data for data in (self.manifest, self.config, *self.stored)}

    def layout(self, tag: str = "latest") -> dict[str, bytes]:
        """The files of an OCI image layout."""
        descriptor = {
            **self._descriptor("manifest.v1+json", self.manifest),
            "annotations": {"org.opencontainers.image.ref.name": tag},
        }
        return {
            "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
            "index.json": json.dumps({"schemaVersion": 2, "manifests": [descriptor]}).encode(),
            **{f"blobs/{name.replace(':', '/')}": data for name, data in self.blobs.items()},
        }

    def saved(self, tag: str = "test:latest") -> dict[str, bytes]:
        """The files of `docker save`."""
        names = [f"{digest(one)[7:]}/layer.tar" for one in self.stored]
        row: dict[str, Any] = {
            "Config": f"{digest(self.config)[7:]}.json",
            "RepoTags": [tag],
            "Layers": names,
        }
        return {
            "manifest.json": json.dumps([row]).encode(),
            row["Config"]: self.config,
            **dict(zip(names, self.stored, strict=True)),
        }

    def write(self, place: Path, form: str, tag: str = "test:latest") -> Path:
        """Writes the image as `directory`, `oci-archive` or `docker-archive`."""
        files = self.saved(tag) if form == "docker-archive" else self.layout()
        if form == "directory":
            for name, data in files.items():
                (place / name).parent.mkdir(parents=True, exist_ok=True)
                (place / name).write_bytes(data)
            return place
        archive = Layer()
        for name, data in files.items():
            archive.add(name, data)
        place.write_bytes(archive.tar())
        return place


def busybox() -> Layer:
    """A root directory with busybox as its programs, and two users."""
    program = shutil.which("busybox")
    if program is None:
        pytest.skip("busybox-static is not installed (make setup)")
    layer = Layer().directory("bin").directory("etc").directory("www").directory("tmp", 0o1777)
    layer.add("bin/busybox", Path(program).read_bytes(), mode=0o755)
    for applet in APPLETS:
        layer.link(f"bin/{applet}", "busybox")
    layer.add("etc/passwd", b"root:x:0:0::/:/bin/sh\nweb:x:101:102::/:/bin/sh\n")
    layer.add("etc/group", b"root:x:0:\nweb:x:102:\n")
    return layer


NGINX = Path("/usr/sbin/nginx")
_NGINX_CONF = b"""
daemon off; master_process off; user root; pid /tmp/nginx.pid; error_log stderr;
events {}
http {
  access_log off;
  client_body_temp_path /tmp/body; proxy_temp_path /tmp/proxy; fastcgi_temp_path /tmp/fastcgi;
  uwsgi_temp_path /tmp/uwsgi; scgi_temp_path /tmp/scgi;
  server { listen 80; root /www; }
}
"""


def nginx() -> Layer:
    """A root directory of Debian's nginx with the libraries that it needs; it serves /www."""
    if not NGINX.exists():
        pytest.skip("nginx is not installed (make setup)")
    layer = Layer().directory("tmp", 0o1777).directory("www").directory("etc/nginx")
    layer.directory("var/log/nginx").directory("var/lib/nginx").directory("usr/sbin")
    layer.add("usr/sbin/nginx", NGINX.read_bytes(), mode=0o755)
    for library in shared_libraries(NGINX):
        layer.add(str(library).lstrip("/"), library.read_bytes(), mode=0o755)
    layer.add("etc/nginx/nginx.conf", _NGINX_CONF)
    layer.add("etc/passwd", b"root:x:0:0::/:/bin/sh\n").add("etc/group", b"root:x:0:\n")
    return layer
