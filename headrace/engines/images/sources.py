# SPDX-License-Identifier: Apache-2.0
"""Where images come from: a directory, an archive, or a registry; all as blobs by their digests.

* a directory in the OCI image layout (`oci-layout`, `index.json`, `blobs/sha256/...`);
* the same as an uncompressed tar (`oci-archive`), or what `docker save` writes (`manifest.json`);
* `docker://HOST[:PORT]/NAME[:TAG|@DIGEST]`, a registry (registry.py).

A source gives out streams; who reads them to their end compares the digests (layers.py).
"""

import tarfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from headrace.engines.images import ImageError
from headrace.engines.images.model import (
    MAX_DOCUMENT,
    Configuration,
    Descriptor,
    Index,
    Manifest,
    _Open,
    configuration,
    digest_of,
    for_this_machine,
    is_index,
    read,
)

REGISTRY = "docker://"
_REF_NAME = "org.opencontainers.image.ref.name"
_MAX_MEMBERS = 100_000


@dataclass(frozen=True)
class LayerSource:
    """A layer: `name` for its source, the digests of it as stored, if known, and unpacked."""

    name: str
    digest: str | None
    diff_id: str | None


@dataclass(frozen=True)
class ImageContent:
    """An image as its manifest has it; `identity` is the digest of all of it."""

    identity: str
    configuration: Configuration
    layers: tuple[LayerSource, ...]


class Stream(Protocol):
    """What is read from its beginning to its end."""

    def read(self, size: int = -1, /) -> bytes:
        """At most `size` octets; none at the end."""
        ...


class Source(Protocol):
    """Blobs by name. `resolve` finds the image."""

    def resolve(self, tag: str | None) -> ImageContent:
        """The image of this tag, or the only one.

        Raises:
            ImageError: there is none, or it is not one for this machine.
        """
        ...

    def open(self, layer: LayerSource) -> AbstractContextManager[Stream]:
        """A layer as it is stored."""
        ...


class Blobs(Protocol):
    """What an image layout is read from: files by their path in it."""

    def document(self, path: str) -> bytes:
        """A small file, whole; ImageError if there is none or it is too large."""
        ...

    def stream(self, path: str) -> AbstractContextManager[Stream]:
        """A file as a stream; ImageError if there is none."""
        ...


class DirectoryBlobs:
    """Files of a directory."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def document(self, path: str) -> bytes:
        """See Blobs."""
        with self.stream(path) as file:
            return bounded(path, file)

    @contextmanager
    def stream(self, path: str) -> Iterator[Stream]:
        """See Blobs."""
        try:
            with (self._directory / path).open("rb") as file:
                yield file
        except OSError as error:
            raise ImageError(f"{self._directory / path}: {error.strerror}") from error


class ArchiveBlobs:
    """Members of a tar."""

    def __init__(self, archive: Path) -> None:
        self._archive = archive

    def document(self, path: str) -> bytes:
        """See Blobs."""
        with self.stream(path) as file:
            return bounded(path, file)

    @contextmanager
    def stream(self, path: str) -> Iterator[Stream]:
        """See Blobs."""
        try:
            with tarfile.open(self._archive, "r:") as tar:
                for number, member in enumerate(tar):
                    if number > _MAX_MEMBERS:
                        break
                    if member.name.removeprefix("./") == path and member.isreg():
                        file = tar.extractfile(member)
                        if file is not None:
                            yield file
                            return
        except (OSError, tarfile.TarError) as error:
            raise ImageError(
                f"{self._archive} is no uncompressed tar of an image: {error}"
            ) from error
        raise ImageError(f"{self._archive} has no {path}")

    def has(self, path: str) -> bool:
        """Whether there is such a member."""
        try:
            with self.stream(path):
                return True
        except ImageError:
            return False


def bounded(name: str, file: Stream) -> bytes:
    """A document, whole.

    Raises:
        ImageError: it is too large.
    """
    data = file.read(MAX_DOCUMENT + 1)
    if len(data) > MAX_DOCUMENT:
        raise ImageError(f"{name} has more than {MAX_DOCUMENT} octets")
    return data


def _path(digest: str) -> str:
    return f"blobs/{digest.replace(':', '/')}"


class Layout:
    """An OCI image layout in a directory or an archive."""

    def __init__(self, blobs: Blobs) -> None:
        self._blobs = blobs

    def resolve(self, tag: str | None) -> ImageContent:
        """See Source."""
        index = read(Index, "index.json", self._blobs.document("index.json"))
        if tag is not None:
            named = tuple(one for one in index.manifests if one.annotations.get(_REF_NAME) == tag)
            if not named:
                known = sorted(one.annotations.get(_REF_NAME, "") for one in index.manifests)
                raise ImageError(f"there is no tag {tag!r}; there are: {', '.join(known)}")
            index = index.model_copy(update={"manifests": named})
        chosen = for_this_machine(index)
        data = self._blob(chosen)
        if is_index(data, chosen.media_type):
            chosen = for_this_machine(read(Index, "the index", data))
            data = self._blob(chosen)
        manifest = read(Manifest, "the manifest", data)
        return content(chosen.digest, manifest, self._blob(manifest.config))

    def _blob(self, descriptor: Descriptor) -> bytes:
        return verified(descriptor.digest, self._blobs.document(_path(descriptor.digest)))

    def open(self, layer: LayerSource) -> AbstractContextManager[Stream]:
        """See Source."""
        return self._blobs.stream(_path(layer.name))


class _Saved(_Open):
    model_config = ConfigDict(extra="ignore", frozen=True)

    config: str = Field(alias="Config")
    tags: tuple[str, ...] | None = Field(None, alias="RepoTags")
    layers: tuple[str, ...] = Field(alias="Layers", max_length=256)


_SAVED = TypeAdapter(tuple[_Saved, ...])


class SavedByDocker:
    """The archive of `docker save`, which has no index and its layers by path."""

    def __init__(self, blobs: ArchiveBlobs) -> None:
        self._blobs = blobs

    def resolve(self, tag: str | None) -> ImageContent:
        """See Source."""
        try:
            images = _SAVED.validate_json(self._blobs.document("manifest.json"))
        except ValidationError as error:
            raise ImageError(f"manifest.json: {error.errors()[0]['msg']}") from None
        named = [one for one in images if tag is None or tag in (one.tags or ())]
        if len(named) != 1:
            known = sorted(tag for one in images for tag in one.tags or ())
            asked = "several images: give a `tag`" if tag is None else f"no tag {tag!r}"
            raise ImageError(f"{asked}; there are: {', '.join(known)}")
        data = self._blobs.document(named[0].config)
        found = configuration(data, len(named[0].layers))
        layers = tuple(
            LayerSource(path, None, diff_id)
            for path, diff_id in zip(named[0].layers, found.rootfs.diff_ids, strict=True)
        )
        return ImageContent(digest_of(data), found, layers)

    def open(self, layer: LayerSource) -> AbstractContextManager[Stream]:
        """See Source."""
        return self._blobs.stream(layer.name)


def verified(digest: str, data: bytes) -> bytes:
    """The data, whose digest this is.

    Raises:
        ImageError: it is not.
    """
    if digest_of(data) != digest:
        raise ImageError(f"{digest}: the content has another digest, {digest_of(data)}")
    return data


def content(identity: str, manifest: Manifest, config: bytes) -> ImageContent:
    """The image of a manifest and its configuration, both verified.

    Raises:
        ImageError: it is none for this machine.
    """
    found = configuration(config, len(manifest.layers))
    layers = tuple(
        LayerSource(layer.digest, layer.digest, diff_id)
        for layer, diff_id in zip(manifest.layers, found.rootfs.diff_ids, strict=True)
    )
    return ImageContent(identity, found, layers)


def local_source(place: Path) -> Source:
    """The image at this place of the host.

    Raises:
        ImageError: there is nothing that could be one.
    """
    if place.is_dir():
        return Layout(DirectoryBlobs(place))
    if not place.is_file():
        raise ImageError(f"there is no file or directory {place}")
    blobs = ArchiveBlobs(place)
    if blobs.has("index.json"):
        return Layout(blobs)
    return SavedByDocker(blobs)
