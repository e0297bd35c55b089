# SPDX-License-Identifier: Apache-2.0
"""What a pod demands as a VNF: annotations for its traffic, extended resources for its cores."""

from collections.abc import Mapping
from typing import Any

from headrace.cluster.resources import GROUP
from headrace.cluster.scheduling.cost import VnfDemand

PPS, BYTES, CYCLES, PORT = (
    f"{GROUP}/{name}" for name in ("pps", "frame-bytes", "cycles-per-packet", "port")
)
CORE_RESOURCE = f"{GROUP}/vnf-core"
MEMORY_RESOURCES = (f"{GROUP}/memory-64mi", f"{GROUP}/hugepages-64mi")
"""The extended resources of the device plugin: cores for VNFs, memory in pieces of 64 MiB, of which
those in hugepages are asked for by a name of their own."""
VNF_LABEL = f"{GROUP}/vnf"
"""Pods with it are counted on their nodes."""


class WrongPod(Exception):
    """An annotation that can't be read; the message names it."""


def demand_of(pod: Mapping[str, Any]) -> VnfDemand | None:
    """The demand of a pod, or None if it is no VNF.

    Raises:
        WrongPod: an annotation is no number, or out of range.
    """
    notes = pod.get("metadata", {}).get("annotations") or {}
    cores = memory = 0.0
    for container in pod.get("spec", {}).get("containers", []):
        limits = {
            **(container.get("resources", {}).get("limits") or {}),
            **(container.get("resources", {}).get("requests") or {}),
        }
        cores += _number(limits.get(CORE_RESOURCE, 0), CORE_RESOURCE)
        memory += sum(64 * _number(limits.get(name, 0), name) for name in MEMORY_RESOURCES)
    if PPS not in notes and not cores:
        return None
    size = _number(notes.get(BYTES, 512), BYTES)
    if not 64 <= size <= 65_535:
        raise WrongPod(f"{BYTES}: {size:g} is not within 64 to 65535")
    return VnfDemand(
        pps=_number(notes.get(PPS, 0), PPS),
        frame_bytes=size,
        cores=cores,
        cycles=_number(notes.get(CYCLES, 0), CYCLES),
        memory_mb=memory,
        port=str(notes.get(PORT, "vhost-user")),
    )


def _number(value: Any, name: str) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise WrongPod(f"{name}: {value!r} is no number") from None
    if not 0 <= number < 1e15:
        raise WrongPod(f"{name}: {value!r} is out of range")
    return number
