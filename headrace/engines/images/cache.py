# SPDX-License-Identifier: Apache-2.0
"""Unpacked images, one directory for each by its digest, made once and not changed after.

    <directory>/<digest>/rootfs        what the layers have, of the image's own users
    <directory>/<digest>/config.json   what its author wants to be run
    <directory>/<digest of a reference>.ref   the digest that a registry's tag had

A tag of a registry is asked for once: what it names then is the image until the file is removed.
The image of a file or directory is looked at each time. An image counts as there once its directory
has its name; before that it is below `<directory>/new`, which is emptied at the next use.
"""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.engines.images import ImageError
from headrace.engines.images.layers import Budget, unpack
from headrace.engines.images.model import Configuration, is_digest
from headrace.engines.images.model import digest_of as digest_of_data
from headrace.engines.images.registry import Registry, reference
from headrace.engines.images.sources import REGISTRY, ImageContent, Source, local_source
from headrace.machine.processes import make_private, write_atomically


@dataclass(frozen=True)
class Unpacked:
    """An image that is ready to be mounted."""

    rootfs: Path
    configuration: Configuration


class ImageCache:
    """The images in `directory`. Calls block; several processes may use it at once."""

    def __init__(self, directory: Path, budget: Budget | None = None) -> None:
        self._directory = directory
        self._budget = budget or Budget()

    def get(self, image: str, tag: str | None) -> Unpacked:
        """The image of this reference: a path of the host, or `docker://...`.

        Raises:
            ImageError: it cannot be had, is damaged or not one for this machine.
        """
        with self._locked():
            try:
                return self._get(image, tag)
            except OSError as error:
                raise ImageError(f"{image}: {error}") from error

    def _get(self, image: str, tag: str | None) -> Unpacked:
        if not image.startswith(REGISTRY):
            source = local_source(Path(image))
            return self._unpacked(source.resolve(tag), source)
        note = self._directory / f"{digest_of_data(f'{image} {tag}'.encode())[7:]}.ref"
        known = note.read_text() if note.is_file() else ""
        if is_digest(known) and (self._place(known) / "config.json").is_file():
            return self._read(self._place(known))
        registry = Registry(reference(image))
        try:
            content = registry.resolve(tag)
            unpacked = self._unpacked(content, registry)
        finally:
            registry.close()
        write_atomically(note, content.identity)
        return unpacked

    def _place(self, identity: str) -> Path:
        return self._directory / identity.removeprefix("sha256:")

    def _unpacked(self, content: ImageContent, source: Source) -> Unpacked:
        place = self._place(content.identity)
        if not place.is_dir():
            new = self._directory / "new"
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir(mode=0o700)
            try:
                budget = Budget(self._budget.octets, self._budget.entries)
                unpack(content, source, new / "rootfs", budget)
                (new / "rootfs").chmod(0o755)
                text = content.configuration.model_dump_json(by_alias=True)
                write_atomically(new / "config.json", text)
                new.rename(place)
            finally:
                shutil.rmtree(new, ignore_errors=True)
        return self._read(place)

    @staticmethod
    def _read(place: Path) -> Unpacked:
        text = (place / "config.json").read_text()
        return Unpacked(place / "rootfs", Configuration.model_validate_json(text))

    @contextmanager
    def _locked(self) -> Iterator[None]:
        make_private(self._directory)
        with (self._directory / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
