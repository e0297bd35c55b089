# SPDX-License-Identifier: Apache-2.0
"""Builds the OCI image of a node, without a registry: `make image` writes build-image/headrace.tar.

Three layers: Debian 12's packages that the programs need (mmdebstrap), the Python packages of
pyproject.toml, and Headrace itself with the plugins for Kubernetes. A layer is built again only if
what it is made of has changed. `ctr images import`, `podman load` or `nerdctl load` take the file.
"""

import gzip
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build-image"
PROGRAMS = Path(os.environ.get("HEADRACE_BUILD", ROOT / "build/dataplane/apps"))
PLUGINS = ROOT / "build-plugins"
HOME = "opt/headrace"
OCI = "application/vnd.oci.image"

# What the node runs beside the libraries of its own programs, which are found by ldd.
PACKAGES = [
    "ca-certificates",
    "dpdk",
    "ethtool",
    "iproute2",
    "nftables",
    "openvswitch-switch",
    "procps",
    "python3",
    "runc",
    "tini",
]

LAUNCHER = f"""#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
import sys

sys.path.insert(0, "/{HOME}/lib")
from headrace.cli import main

main()
"""


def run(*words: str | Path) -> str:
    """Runs a program to its end; what it wrote."""
    done = subprocess.run(  # noqa: S603
        [str(word) for word in words],
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "SOURCE_DATE_EPOCH": "0"},
    )
    if done.returncode != 0:
        sys.exit(f"image: {words[0]} failed:\n{done.stderr[-2000:]}")
    return done.stdout


def programs() -> list[Path]:
    """The C++ programs of a node."""
    names = ("headrace-switch", "headrace-vnf", "headrace-traffic", "headrace-confine")
    found = [PROGRAMS / name for name in names]
    missing = [str(path) for path in found if not path.is_file()]
    if missing:
        sys.exit(f"image: {', '.join(missing)} are not built; run `make build`")
    return found


def plugins() -> list[Path]:
    """The plugins for Kubernetes."""
    found = [PLUGINS / name for name in ("headrace-cni", "headrace-device-plugin")]
    missing = [str(path) for path in found if not path.is_file()]
    if missing:
        sys.exit(f"image: {', '.join(missing)} are not built; run `make plugins`")
    return found


def library_packages() -> list[str]:
    """The Debian packages with the libraries of the programs, and DPDK's drivers."""
    files = set()
    for program in programs():
        for line in run("/usr/bin/ldd", program).splitlines():
            words = line.split()
            if len(words) > 2 and words[1] == "=>" and words[2].startswith("/"):
                files.add(words[2])
    # Which of its paths a package knows a file by differs: /lib is /usr/lib, and some are links.
    paths = {
        path: file
        for file in files
        for path in (file, os.path.realpath(file), file.removeprefix("/usr"), f"/usr{file}")
    }
    query = ["/usr/bin/dpkg-query", "-S", *sorted(paths)]
    said = subprocess.run(query, capture_output=True, text=True, check=False)  # noqa: S603
    names, known = set(), set()
    for line in said.stdout.splitlines():
        package, _, path = line.partition(": ")
        names.add(package.split(":")[0])
        known.add(paths.get(path))
    if files - known:
        sys.exit(f"image: of no Debian package: {', '.join(sorted(files - known))}")
    installed = run("/usr/bin/dpkg-query", "-W", "-f=${Package}\n", "librte-*").split()
    return sorted(names | {name for name in installed if not name.endswith("-dev")})


def tidy(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """An entry without what differs from one build to the next; None: it is left out."""
    if "__pycache__" in entry.name:
        return None
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
    return entry


def archive(folder: Path) -> bytes:
    """The content of a folder as a layer, in a fixed order."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(folder.rglob("*")):
            tar.add(path, str(path.relative_to(folder)), recursive=False, filter=tidy)
    return out.getvalue()


def debian(file: Path) -> None:
    """The layer of Debian's packages."""
    if shutil.which("mmdebstrap") is None:
        run("/usr/bin/apt-get", "install", "-y", "-qq", "--no-install-recommends", "mmdebstrap")
    names = [*PACKAGES, *library_packages()]
    print(f"image: Debian packages: {len(names)} and what they need", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "root.tar"
        run(
            *("mmdebstrap", "--quiet", "--variant=minbase", "--mode=root"),
            "--customize-hook=rm -rf $1/var/lib/apt/lists/* $1/var/cache/* $1/var/log/*",
            "--customize-hook=rm -rf $1/usr/share/doc $1/usr/share/man $1/usr/share/locale",
            f"--include={','.join(names)}",
            *("bookworm", made),
        )
        with made.open("rb") as tar, gzip.GzipFile(file, "wb", 6, mtime=0) as zipped:
            shutil.copyfileobj(tar, zipped)


def python(file: Path) -> None:
    """The layer of Python packages."""
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    print(f"image: {len(wanted)} Python packages and what they need", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / HOME / "lib"
        pip: list[str | Path] = [ROOT / ".venv/bin/python", "-m", "pip", "install", "--quiet"]
        pip += ["--no-compile", "--disable-pip-version-check", "--target", place, *wanted]
        run(*pip)
        shutil.rmtree(place / "bin", ignore_errors=True)
        file.write_bytes(gzip.compress(archive(Path(folder)), 6, mtime=0))


def headrace(file: Path) -> None:
    """The layer of Headrace: package, programs, plugins, and the command."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / HOME
        (home / "bin").mkdir(parents=True)
        shutil.copytree(ROOT / "headrace", home / "lib/headrace")
        for program in programs():
            shutil.copy(program, home / "bin")
            run("/usr/bin/strip", home / "bin" / program.name)
        for plugin in plugins():
            shutil.copy(plugin, home / "bin")
        # importlib.metadata tells the version.
        about = home / "lib/headrace-0.dist-info"
        about.mkdir()
        project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
        version = f"Metadata-Version: 2.1\nName: headrace\nVersion: {project['version']}\n"
        (about / "METADATA").write_text(version)
        command = Path(folder) / "usr/bin/headrace"
        command.parent.mkdir(parents=True)
        command.write_text(LAUNCHER)
        command.chmod(0o755)
        file.write_bytes(gzip.compress(archive(Path(folder)), 6, mtime=0))


def digest_of_files(*places: Path) -> str:
    """A digest of the content of files and folders."""
    found = hashlib.sha256()
    for place in places:
        for path in sorted(place.rglob("*")) if place.is_dir() else [place]:
            if path.is_file() and "__pycache__" not in path.parts:
                found.update(f"{path.relative_to(place.parent)}\n".encode())
                found.update(path.read_bytes())
    return found.hexdigest()


def layer(name: str, key: str, make: Callable[[Path], None]) -> Path:
    """The file of a layer, which is made if there is none of this key."""
    file = OUT / f"{name}-{key[:16]}.tar.gz"
    if not file.exists():
        for old in OUT.glob(f"{name}-*.tar.gz"):
            old.unlink()
        draft = file.with_suffix(".new")
        make(draft)
        draft.rename(file)
    return file


def digest(data: bytes) -> str:
    """As OCI writes it."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def descriptor(kind: str, data: bytes) -> dict[str, object]:
    """How a blob is referred to."""
    return {"mediaType": f"{OCI}.{kind}", "digest": digest(data), "size": len(data)}


def write_image(layers: list[Path], file: Path) -> None:
    """Writes the image as an archive of an OCI image layout (image-spec 1.1)."""
    stored = [layer.read_bytes() for layer in layers]
    config = json.dumps(
        {
            "os": "linux",
            "architecture": run("/usr/bin/dpkg", "--print-architecture").strip(),
            "config": {
                "Env": [
                    "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                    f"HEADRACE_BUILD=/{HOME}/bin",
                    f"PYTHONPATH=/{HOME}/lib",
                ],
                "Entrypoint": ["/usr/bin/tini", "--"],
                "Cmd": ["headrace", "up", "--foreground", "--config", "/etc/headrace/node.yaml"],
            },
            "rootfs": {
                "type": "layers",
                "diff_ids": [digest(gzip.decompress(data)) for data in stored],
            },
        }
    ).encode()
    manifest = json.dumps(
        {
            "schemaVersion": 2,
            "mediaType": f"{OCI}.manifest.v1+json",
            "config": descriptor("config.v1+json", config),
            "layers": [descriptor("layer.v1.tar+gzip", data) for data in stored],
        }
    ).encode()
    index = {
        **descriptor("manifest.v1+json", manifest),
        "annotations": {
            "org.opencontainers.image.ref.name": "latest",
            "io.containerd.image.name": "docker.io/library/headrace:latest",
        },
    }
    files = {
        "oci-layout": b'{"imageLayoutVersion": "1.0.0"}',
        "index.json": json.dumps({"schemaVersion": 2, "manifests": [index]}).encode(),
        **{f"blobs/{digest(one).replace(':', '/')}": one for one in (manifest, config, *stored)},
    }
    draft = file.with_suffix(".new")
    with tarfile.open(draft, "w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    draft.rename(file)


def main() -> None:
    """Makes the layers that are not there, and the image of them."""
    if os.geteuid() != 0:
        sys.exit("image: needs root, to unpack Debian's packages")
    OUT.mkdir(exist_ok=True)
    here = digest_of_files(Path(__file__))
    binaries = digest_of_files(*programs())
    layers = [
        layer("debian", hashlib.sha256((here + binaries).encode()).hexdigest(), debian),
        layer("python", digest_of_files(ROOT / "pyproject.toml"), python),
        layer("headrace", digest_of_files(ROOT / "headrace", *programs(), *plugins()), headrace),
    ]
    write_image(layers, OUT / "headrace.tar")
    size = (OUT / "headrace.tar").stat().st_size >> 20
    print(f"image: {OUT / 'headrace.tar'}, {size} MiB")


if __name__ == "__main__":
    main()
