# SPDX-License-Identifier: Apache-2.0
"""What an image must be, by the type of its template, before a VNF is made from it.

A disk of a virtual machine: machine/disk_images.py. A container's: an OCI image layout as a tar, or
what `docker save` writes, with one image for this machine. A native function's: a tar or tar.gz
with a file `start` at its top, as the original node had them.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from headrace.engines.images import ImageError as ContainerImageError
from headrace.engines.images.layers import Budget, list_file
from headrace.engines.images.sources import Layout, local_source
from headrace.machine.disk_images import DiskImage, ImageError, inspect

START = "start"
"""The program of a native function's archive that sets it up."""

_ARCHIVE = Budget(octets=1 << 30, entries=100_000)

Inspect = Callable[[Path, int], DiskImage]


def _container(file: Path, max_virtual_size: int) -> DiskImage:
    """An archive of a container's image; its layers are verified when it is unpacked."""
    del max_virtual_size
    try:
        source = local_source(file)
        source.resolve(None)
    except ContainerImageError as error:
        raise ImageError(str(error).replace(str(file), "it")) from error
    form = "oci-archive" if isinstance(source, Layout) else "docker-archive"
    return DiskImage(form, file.stat().st_size)


def _archive(file: Path, max_virtual_size: int) -> DiskImage:
    """An archive of a native function."""
    del max_virtual_size
    budget = Budget(_ARCHIVE.octets, _ARCHIVE.entries)
    try:
        files = list_file(file, budget)
    except ContainerImageError as error:
        text = str(error).removeprefix(f"layer {file.name}: ")
        raise ImageError(f"it is no tar or tar.gz: {text}") from error
    if START not in files:
        raise ImageError(f"it has no file `{START}` at its top")
    return DiskImage("archive", _ARCHIVE.octets - budget.octets)


_BY_TYPE: Mapping[str, Inspect] = {
    "virtual-machine-kvm": inspect,
    "kvm": inspect,
    "docker": _container,
    "native": _archive,
}
"""How images are looked at, by the original's types of templates; the others have none."""


def inspector(kind: str) -> Inspect:
    """What looks at images of templates of a type.

    Raises:
        ImageError: such templates have no image.
    """
    found = _BY_TYPE.get(kind)
    if found is None:
        raise ImageError(f"a template of type {kind} has no image; {', '.join(_BY_TYPE)} have")
    return found
