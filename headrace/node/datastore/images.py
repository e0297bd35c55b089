# SPDX-License-Identifier: Apache-2.0
"""The files of the datastore: images by their SHA-256, and uploads that are not complete.

`<statedir>/images/<sha256>` is the node's alone; virtual machines get their image as an open
descriptor. A file is written under another name, checked as a whole, and only then an image.
Nothing that runs changes it. Quotas count what is on the disk, uploads included.
"""

import asyncio
import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

from headrace.machine.disk_images import DiskImage, ImageError
from headrace.machine.processes import make_private
from headrace.node.datastore.contents import inspector
from headrace.node.errors import AccessError, GraphRefused

_BUFFER = 1 << 20
_PART = ".part"
_PATIENCE_S = 24 * 3600.0
_MOST_UPLOADS = 16
_RESERVE = 256 << 20
"""Octets that stay free on the disk, for the node's own database and logs."""


@dataclass
class Upload:
    """A file on its way in."""

    id: str
    user: str
    template: str
    file: Path
    size: int = 0
    at: float = field(default_factory=time.monotonic)
    sha256: "hashlib._Hash" = field(default_factory=hashlib.sha256)
    md5: "hashlib._Hash" = field(default_factory=lambda: hashlib.md5(usedforsecurity=False))
    busy: bool = False


class ImageFiles:
    """The directory of images of one node. `max_octets` is for all, `max_image` for one of them."""

    def __init__(self, directory: Path, max_octets: int, max_image: int, max_virtual: int) -> None:
        self._directory = directory
        self._max_octets, self._max_image = max_octets, max_image
        self._max_virtual = max_virtual
        self._uploads: dict[str, Upload] = {}

    def prepare(self) -> None:
        """Makes the directory, and removes what an earlier node has not completed."""
        make_private(self._directory)
        for part in self._directory.glob(f"*{_PART}"):
            part.unlink()

    def path(self, digest: str) -> Path:
        """The file of an image."""
        return self._directory / digest

    def collect(self, used: Collection[str]) -> None:
        """Removes the images that are not `used`, by their digests."""
        if self._directory.is_dir():
            for file in self._directory.iterdir():
                if file.suffix == _PART or file.name in used:
                    continue
                if file.is_dir():
                    shutil.rmtree(file)  # an unpacked image of an earlier version's
                else:
                    file.unlink()

    # Uploads.

    def begin(self, user: str, template: str) -> Upload:
        """A new upload.

        Raises:
            AccessError: the user has too many.
        """
        self._forget_old()
        if sum(upload.user == user for upload in self._uploads.values()) >= _MOST_UPLOADS:
            raise AccessError(403, f"user {user} has {_MOST_UPLOADS} uploads that are not complete")
        made = Upload(secrets.token_hex(16), user, template, Path())
        make_private(self._directory)
        made.file = self._directory / f"{made.id}{_PART}"
        made.file.touch(mode=0o600)
        self._uploads[made.id] = made
        return made

    def find(self, upload_id: str, user: str) -> Upload:
        """A user's upload.

        Raises:
            AccessError: there is none of that id.
        """
        found = self._uploads.get(upload_id)
        if found is None or found.user != user:
            raise AccessError(404, f"there is no upload {upload_id[:64]!r}; it may have expired")
        if found.busy:
            raise AccessError(409, "this upload is being written to by another request")
        return found

    def abandon(self, upload: Upload) -> None:
        """Removes an upload."""
        self._uploads.pop(upload.id, None)
        upload.file.unlink(missing_ok=True)

    def is_coming(self, template: str) -> bool:
        """Whether there is an upload for a template."""
        return any(upload.template == template for upload in self._uploads.values())

    def _forget_old(self) -> None:
        now = time.monotonic()
        for upload in list(self._uploads.values()):
            if not upload.busy and now - upload.at > _PATIENCE_S:
                self.abandon(upload)

    def pending(self, user: str | None = None) -> int:
        """The octets of uploads, of one user or of all."""
        mine = (u for u in self._uploads.values() if user is None or u.user == user)
        return sum(upload.size for upload in mine)

    def stored(self) -> int:
        """The octets of all images."""
        if not self._directory.is_dir():
            return 0
        files = (file for file in self._directory.iterdir() if file.suffix != _PART)
        return sum(file.stat().st_size for file in files if file.is_file())

    def writer(self, upload: Upload, quota_left: Callable[[], int | None]) -> "Writer":
        """What appends to an upload; `quota_left` says how many octets more the user may have."""

        def refusal(octets: int) -> str | None:
            """Why there is no room for as many more; asked for each piece, as others write, too."""
            if octets > self._max_image - upload.size:
                return f"an image may have {self._max_image >> 20} MiB (datastore.image_mb)"
            left = quota_left()
            if left is not None and octets > left:
                return "the user's quota of images is used up (max_images_mb)"
            room = self._max_octets - self.stored() - self.pending()
            if octets > min(room, shutil.disk_usage(self._directory).free - _RESERVE):
                return "the node's datastore has no room for more (datastore.max_mb)"
            return None

        return Writer(upload, refusal)

    async def complete(
        self, upload: Upload, checksums: dict[str, str], kind: str
    ) -> tuple[str, DiskImage]:
        """Turns an upload into an image of a type of template; returns its digest and what it is.

        Raises:
            GraphRefused: a checksum differs, or it is no image; the upload is gone.
        """
        try:
            for name, given in checksums.items():
                found = getattr(upload, name).hexdigest()
                if found != given.lower():
                    text = f"the {name} of what came is {found}, not {given[:128]!a}"
                    raise GraphRefused("images", f"{text}; send it again")
            try:
                look = inspector(kind)
                image = await asyncio.to_thread(look, upload.file, self._max_virtual)
            except ImageError as error:
                raise GraphRefused("images", f"the image is refused: {error}") from error
            digest = upload.sha256.hexdigest()
            await asyncio.to_thread(_sync, upload.file)
            upload.file.replace(self.path(digest))
        finally:
            self.abandon(upload)
        return digest, image


class Writer:
    """Appends to one upload: a chunk comes whole, or what came of it is cut off again."""

    def __init__(self, upload: Upload, refusal: Callable[[int], str | None]) -> None:
        self._upload = upload
        self._refusal = refusal
        self._buffer = bytearray()
        self._file: BinaryIO | None = None
        self._begin = upload.size
        self._before = (upload.sha256.copy(), upload.md5.copy())

    async def __aenter__(self) -> "Writer":
        self._upload.busy = True
        self._file = self._upload.file.open("ab")
        return self

    async def write(self, octets: bytes) -> None:
        """Takes some octets.

        Raises:
            AccessError: with code 413, there is no room for them.
        """
        self._buffer += octets
        if len(self._buffer) >= _BUFFER:
            await self._flush()

    async def _flush(self) -> None:
        octets, self._buffer = bytes(self._buffer), bytearray()
        refusal = self._refusal(len(octets)) if octets else None
        if refusal is not None:
            raise AccessError(413, refusal)
        try:
            await asyncio.to_thread(self._append, octets)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise AccessError(413, "the disk of the node's datastore is full") from error

    def _append(self, octets: bytes) -> None:
        if self._file is not None and octets:
            self._file.write(octets)
            self._file.flush()
            self._upload.sha256.update(octets)
            self._upload.md5.update(octets)
            self._upload.size += len(octets)

    async def __aexit__(self, kind: object, *_: object) -> None:
        try:
            if kind is None:
                await self._flush()
        except BaseException:
            self._cut()
            raise
        else:
            if kind is not None:
                self._cut()
        finally:
            if self._file is not None:
                self._file.close()
            self._upload.busy = False
            self._upload.at = time.monotonic()

    def _cut(self) -> None:
        self._upload.size = self._begin
        self._upload.sha256, self._upload.md5 = self._before
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
        with contextlib.suppress(OSError):
            os.truncate(self._upload.file, self._begin)


def _sync(file: Path) -> None:
    descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
