# SPDX-License-Identifier: Apache-2.0
"""Unpacks layers, one over the other, into a directory that nobody else has (image-spec, layer).

A layer is a tar that may hold anything. So:

* each name is looked up part by part within the directory, symbolic links too, as the kernel does
  after chroot(2); nothing is made, changed or removed outside;
* only directories, regular files and links are made: no devices, no sockets, no set-user-id bits;
* what is written, read and named is counted, and an image that passes a limit is refused;
* digests, of the layer as it is stored and as it is unpacked, are compared when it is at its end.

`.wh.NAME` removes NAME of the layers below, `.wh..wh..opq` all that they have in its directory.
"""

import contextlib
import hashlib
import io
import os
import shutil
import stat
import tarfile
import zlib
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from headrace.engines.images import ImageError
from headrace.engines.images.sources import ImageContent, LayerSource, Source, Stream

MAX_BYTES = 16 << 30
MAX_ENTRIES = 1_000_000
"""What one image may have, unpacked."""

MAX_ID = 65535
"""The largest user or group of an image."""

_MAX_HEADER = 1 << 20
_MAX_DEPTH = 128
_MAX_LINKS = 40
_CHUNK = 1 << 18
_WHITEOUT, _OPAQUE = ".wh.", ".wh..wh..opq"
_LONG_HEADERS = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


@dataclass
class Budget:
    """What an image may still take."""

    octets: int = MAX_BYTES
    entries: int = MAX_ENTRIES

    def take(self, octets: int = 0, entries: int = 0) -> None:
        """Counts.

        Raises:
            ImageError: it is more than there was.
        """
        self.octets -= octets
        self.entries -= entries
        if self.octets < 0 or self.entries < 0:
            raise ImageError("the image is larger, unpacked, than the node takes")


class _TarInfo(tarfile.TarInfo):
    """A header whose long forms, which are read into memory whole, are bounded."""

    def _proc_member(self, tar: tarfile.TarFile) -> tarfile.TarInfo:
        if self.type in _LONG_HEADERS and self.size > _MAX_HEADER:
            raise ImageError(f"a header of {self.size} octets")
        return super()._proc_member(tar)  # type: ignore[misc,no-any-return]


class _Unzipped(io.RawIOBase):
    """A layer as its tar: decompressed if it is gzip; counted and hashed both ways."""

    def __init__(self, stored: Stream, budget: Budget) -> None:
        self._stored = stored
        self._budget = budget
        self.stored_hash = hashlib.sha256()
        self.unzipped_hash = hashlib.sha256()
        self._ready = b""
        self._more = b""
        self._gzip = None
        first = self._fetch()
        if first[:2] == b"\x1f\x8b":
            self._gzip = zlib.decompressobj(wbits=31)
        elif first[:4] == b"\x28\xb5\x2f\xfd":
            raise ImageError("layers compressed by zstd are not supported; convert them to gzip")
        self._more = first

    def _fetch(self) -> bytes:
        data = self._stored.read(_CHUNK)
        self.stored_hash.update(data)
        return data

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """At most `size` octets; all of the rest is never read at once."""
        size = _CHUNK if size < 0 else size
        while not self._ready:
            raw, self._more = self._more or self._fetch(), b""
            if not raw:
                break
            self._ready = self._decompress(raw)
        answer, self._ready = self._ready[:size], self._ready[size:]
        self._budget.take(octets=len(answer))
        self.unzipped_hash.update(answer)
        return answer

    def _decompress(self, raw: bytes) -> bytes:
        if self._gzip is None:
            return raw
        if self._gzip.eof:  # gzip may have several members, as those of pigz and stargz have
            if not raw.strip(b"\0"):
                return b""
            self._gzip = zlib.decompressobj(wbits=31)
        try:
            data = self._gzip.decompress(raw, _CHUNK)
        except zlib.error as error:
            raise ImageError(f"the layer is damaged: {error}") from error
        self._more = self._gzip.unconsumed_tail or self._gzip.unused_data
        return data

    def drain(self) -> None:
        """Reads what is after the tar's end, so that the digests are of all."""
        while self.read(_CHUNK):
            pass


def unpack(image: ImageContent, source: Source, root: Path, budget: Budget | None = None) -> None:
    """Unpacks all layers into the new directory `root`.

    Raises:
        ImageError: a layer is damaged, is not what its digest says, or has what it must not.
        OSError: the disk is full, or the like.
    """
    budget = budget or Budget()
    root.mkdir()
    for layer in image.layers:
        with source.open(layer) as stored:
            _unpack_layer(layer, stored, root, budget)


def unpack_file(archive: Path, root: Path, budget: Budget) -> None:
    """Unpacks a tar or tar.gz of the host into the new directory `root`, as a layer.

    Raises:
        ImageError: it is damaged, or has what no layer may have.
        OSError: it cannot be read, or the disk is full.
    """
    root.mkdir()
    with archive.open("rb") as stored:
        _unpack_layer(LayerSource(archive.name, None, None), stored, root, budget)


def list_file(archive: Path, budget: Budget) -> set[str]:
    """The regular files of a tar or tar.gz by their names in it; read to its end, all counted.

    Raises:
        ImageError: it is damaged, or more than the budget.
        OSError: it cannot be read.
    """
    found = set()
    with archive.open("rb") as stored:
        plain = _Unzipped(stored, budget)
        try:
            with tarfile.open(fileobj=plain, mode="r|", tarinfo=_TarInfo) as tar:
                for member in tar:
                    budget.take(entries=1)
                    if member.isreg():
                        found.add(member.name.removeprefix("./"))
                    tar.members = []  # type: ignore[attr-defined]  # else it keeps them all
        except (tarfile.TarError, ValueError, EOFError) as error:
            raise ImageError(f"layer {archive.name}: {error}") from error
        plain.drain()
    return found


def _unpack_layer(layer: LayerSource, stored: Stream, root: Path, budget: Budget) -> None:
    plain = _Unzipped(stored, budget)
    made: set[Path] = set()
    directories: list[tuple[Path, int]] = []
    try:
        with tarfile.open(fileobj=plain, mode="r|", tarinfo=_TarInfo) as tar:
            for member in tar:
                budget.take(entries=1)
                _unpack_member(tar, member, root, made, directories, budget)
                tar.members = []  # type: ignore[attr-defined]  # else it keeps them all
    except (tarfile.TarError, ValueError, EOFError) as error:
        raise ImageError(f"layer {layer.name}: {error}") from error
    plain.drain()
    if layer.digest not in (None, f"sha256:{plain.stored_hash.hexdigest()}"):
        raise ImageError(f"layer {layer.name}: the content has another digest")
    if layer.diff_id not in (None, f"sha256:{plain.unzipped_hash.hexdigest()}"):
        raise ImageError(f"layer {layer.name}: the content is not what the configuration says")
    for path, mode in reversed(directories):
        if path.is_dir() and not path.is_symlink():
            path.chmod(mode)


def _unpack_member(
    tar: tarfile.TarFile,
    member: tarfile.TarInfo,
    root: Path,
    made: set[Path],
    directories: list[tuple[Path, int]],
    budget: Budget,
) -> None:
    name = PurePosixPath(member.name)
    parts = [part for part in name.parts if part not in ("/", ".")]
    if ".." in parts or len(parts) > _MAX_DEPTH or "\0" in member.name:
        raise ImageError(f"a name that leads out of the image: {member.name[:100]!r}")
    if not parts:
        return  # the root itself
    parent = within(root, parts[:-1])
    _make_directories(root, parent)
    last = parts[-1]
    if last == _OPAQUE:
        _remove_below(parent, made)
        return
    if last.startswith(_WHITEOUT):
        hidden = last.removeprefix(_WHITEOUT)
        if hidden in ("", ".", ".."):
            raise ImageError(f"a whiteout of nothing: {member.name[:100]!r}")
        if parent / hidden not in made:
            _remove(parent / hidden)
        return
    place = parent / last
    _make(tar, member, root, place, budget)
    made.add(place)
    made.update(above for above in place.parents if above.is_relative_to(root))
    if member.isdir():
        # Once everything is in it: a directory may be closed to writing.
        directories.append((place, member.mode & 0o1777))


def _make(
    tar: tarfile.TarFile, member: tarfile.TarInfo, root: Path, place: Path, budget: Budget
) -> None:
    if not 0 <= member.uid <= MAX_ID or not 0 <= member.gid <= MAX_ID:
        raise ImageError(f"{member.name[:100]!r} is of a user or group above {MAX_ID}")
    there = _kind(place)
    if there is not None and not (member.isdir() and stat.S_ISDIR(there)):
        _remove(place)
    if member.isdir():
        place.mkdir(exist_ok=True)
        place.chmod(0o755)
    elif member.isreg():
        budget.take(octets=member.size if member.issparse() else 0)
        _write(tar, member, place)
    elif member.issym():
        place.symlink_to(member.linkname)
    elif member.islnk():
        target = [part for part in PurePosixPath(member.linkname).parts if part not in ("/", ".")]
        if ".." in target or not target:
            raise ImageError(f"a link out of the image: {member.linkname[:100]!r}")
        original = within(root, target[:-1]) / target[-1]
        if not stat.S_ISREG(_kind(original) or 0):
            raise ImageError(f"a link to what is no file: {member.linkname[:100]!r}")
        os.link(original, place, follow_symlinks=False)
        return  # owner and mode are those of the file
    else:
        return  # devices and pipes: a container has those of its runtime alone
    os.chown(place, member.uid, member.gid, follow_symlinks=False)
    if member.isreg():
        place.chmod(member.mode & 0o777)


def _write(tar: tarfile.TarFile, member: tarfile.TarInfo, place: Path) -> None:
    content = tar.extractfile(member)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(place, flags, 0o600), "wb") as file:
        if content is not None:
            shutil.copyfileobj(content, file, _CHUNK)


def within(root: Path, parts: list[str]) -> Path:
    """Where `parts` lead below `root`, links followed as if `root` were the root of all."""
    at = root
    pending = list(reversed(parts))
    links = 0
    while pending:
        part = pending.pop()
        if part in ("", ".", "/"):
            continue
        if part == "..":
            at = at if at == root else at.parent
            continue
        following = at / part
        if not stat.S_ISLNK(_kind(following) or 0):
            at = following
            continue
        links += 1
        if links > _MAX_LINKS:
            raise ImageError(f"too many links on the way to {'/'.join(parts)[:100]!r}")
        target = PurePosixPath(os.readlink(following))
        if target.is_absolute():
            at = root
        pending += reversed(target.parts)
    return at


def _make_directories(root: Path, path: Path) -> None:
    """Makes what a layer takes for granted; a file on the way gives place to a directory."""
    at = root
    for part in path.relative_to(root).parts:
        at = at / part
        there = _kind(at)
        if there is not None and not stat.S_ISDIR(there):
            _remove(at)
            there = None
        if there is None:
            at.mkdir(mode=0o755)
            at.chmod(0o755)


def _kind(path: Path) -> int | None:
    """The type of what is there itself, without following it; None if nothing is."""
    try:
        return path.lstat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise ImageError(f"a name that no file can have: {str(error)[:100]}") from error


def _remove_below(directory: Path, made: set[Path]) -> None:
    """Removes what layers below have put here, and leaves what this one has made."""
    for entry in list(directory.iterdir()):
        if entry not in made:
            _remove(entry)
        elif stat.S_ISDIR(_kind(entry) or 0):
            _remove_below(entry, made)


def _remove(path: Path) -> None:
    there = _kind(path)
    if there is None:
        return
    if stat.S_ISDIR(there):
        shutil.rmtree(path)
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
