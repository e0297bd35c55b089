# SPDX-License-Identifier: Apache-2.0
"""What an image says of itself: manifests and configuration (opencontainers/image-spec 1.1).

Docker's media types (schema 2) have the same form. Unknown members are ignored, as the
specification wants; sizes and counts are bounded.
"""

import hashlib
import json
import re
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from headrace.engines.images import ImageError

MAX_DOCUMENT = 4 << 20
"""Octets of a manifest, an index or a configuration."""

MAX_LAYERS = 256

_INDEXES = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
)
_MANIFESTS = (
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
ACCEPTED = ", ".join((*_MANIFESTS, *_INDEXES))
"""What a registry is asked for."""

M = TypeVar("M", bound=BaseModel)
Digest = Annotated[str, Field(pattern=r"^sha256:[0-9a-f]{64}$")]
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def _none_is_empty(value: Any) -> Any:
    """Docker writes null for an empty list or object."""
    return [] if value is None else value


class _Open(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class Platform(_Open):
    """For which machines a manifest is."""

    os: str = ""
    architecture: str = ""


class Descriptor(_Open):
    """Names a blob by its digest."""

    media_type: str = Field("", alias="mediaType")
    digest: Digest
    size: Annotated[int, Field(ge=0)]
    platform: Platform | None = None
    annotations: dict[str, str] = {}


class Index(_Open):
    """Several manifests to choose from."""

    manifests: Annotated[tuple[Descriptor, ...], Field(max_length=1024)]


class Manifest(_Open):
    """The blobs of an image, layers from the lowest up."""

    config: Descriptor
    layers: Annotated[tuple[Descriptor, ...], Field(max_length=MAX_LAYERS)]


class Defaults(_Open):
    """What the image's author wants to be run, and how (`config` of the configuration)."""

    user: str = Field("", alias="User")
    env: Annotated[tuple[str, ...], BeforeValidator(_none_is_empty)] = Field((), alias="Env")
    entrypoint: Annotated[tuple[str, ...], BeforeValidator(_none_is_empty)] = Field(
        (), alias="Entrypoint"
    )
    cmd: Annotated[tuple[str, ...], BeforeValidator(_none_is_empty)] = Field((), alias="Cmd")
    workdir: str = Field("", alias="WorkingDir")


class Rootfs(_Open):
    """The digests of the layers as they are without compression."""

    diff_ids: Annotated[tuple[Digest, ...], Field(max_length=MAX_LAYERS)]


class Configuration(_Open):
    """An image's configuration."""

    os: str
    architecture: str
    config: Defaults = Defaults()
    rootfs: Rootfs


def digest_of(data: bytes) -> str:
    """The digest of a blob."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def is_digest(text: str) -> bool:
    """Whether this is a digest of the kind that all images have."""
    return _DIGEST.fullmatch(text) is not None


def document(name: str, data: bytes) -> dict[str, Any]:
    """The JSON object in `data`.

    Raises:
        ImageError: it is none.
    """
    try:
        found = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise ImageError(f"{name} is no JSON") from error
    if not isinstance(found, dict):
        raise ImageError(f"{name} is no JSON object")
    return found


def read(model: type[M], name: str, data: bytes) -> M:
    """The document `name` as a `model`.

    Raises:
        ImageError: it is none; names the member.
    """
    try:
        return model.model_validate(document(name, data))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"])
        raise ImageError(f"{name}: {place}: {first['msg']}") from None


def is_index(data: bytes, media_type: str) -> bool:
    """Whether a blob, of which a descriptor or header says `media_type`, is an index."""
    said = document("the manifest", data).get("mediaType", media_type)
    return said in _INDEXES or (said not in _MANIFESTS and b'"manifests"' in data)


def for_this_machine(index: Index) -> Descriptor:
    """The manifest for Linux on x86-64, or the only one.

    Raises:
        ImageError: there is none.
    """
    fitting = [
        one
        for one in index.manifests
        if one.platform and (one.platform.os, one.platform.architecture) == ("linux", "amd64")
    ]
    if not fitting and len(index.manifests) == 1:
        fitting = list(index.manifests)
    if not fitting:
        raise ImageError("the image has no manifest for linux/amd64")
    return fitting[0]


def configuration(data: bytes, layers: int) -> Configuration:
    """An image's configuration, checked for this machine and its number of layers.

    Raises:
        ImageError: it is for another machine, or does not fit the manifest.
    """
    found = read(Configuration, "the image's configuration", data)
    if (found.os, found.architecture) != ("linux", "amd64"):
        raise ImageError(f"the image is for {found.os}/{found.architecture}, not linux/amd64")
    if len(found.rootfs.diff_ids) != layers:
        said = len(found.rootfs.diff_ids)
        raise ImageError(f"the image has {layers} layers, its configuration lists {said}")
    return found
