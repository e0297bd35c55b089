# SPDX-License-Identifier: Apache-2.0
"""Templates of VNFs that a subject asks for and the node does not come with.

The node has a template for each function of headrace-vnf as a process. What has a configuration of
its own, or runs by another engine, is written as a template of the bench's and named to the node.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from headrace.bench.subject import Subject
from headrace.bench.vm_image import MEMORY_MB as VM_MB
from headrace.bench.vm_image import write_image

ROLES = {
    "nat": ("inside", "outside"),
    "cpe": ("inside", "outside"),
    "bng": ("access", "core"),
    "basestation": ("radio", "core"),
}
"""Functions whose two ports differ, and what they are called."""
OWN = {("container", "pass"): "pass-container"}
"""Templates of the node for engines but the usual."""
MEMORY_MB = 128


def memory_of(subject: Subject) -> int:
    """Megabytes that each of its VNFs needs, at most."""
    return VM_MB if subject.engine == "vm" else MEMORY_MB


def template_name(subject: Subject) -> str:
    """The name of the template that a graph names for the subject's VNFs."""
    if subject.configuration or subject.engine in ("container", "vm"):
        own = OWN.get((subject.engine, subject.function))
        return own if own and not subject.configuration else _name(subject)
    return subject.function


def _name(subject: Subject) -> str:
    return f"bench-{subject.engine}-{subject.function}"


def template_of(subject: Subject, folder: Path) -> dict[str, Any]:
    """The template that `template_name` names, if the bench has to write it.

    Raises:
        DeviceError: a VM's image can't be made.
    """
    roles = ROLES.get(subject.function)
    if subject.engine == "vm":
        configuration = write_image(subject, roles, folder / f"{_name(subject)}.cpio")
        machine = {"function": "guest", "memory-mb": VM_MB, "idle": "yield"}
    else:
        configuration, machine = subject.configuration, {}
    return {
        "id": _name(subject),
        "name": _name(subject),
        "functional-capability": _name(subject),
        "engine": subject.engine,
        "function": subject.function,
        "cores": 1,
        "memory-mb": MEMORY_MB,
        "ports": {
            "min": 2,
            "max": 2,
            "labels": list(roles or ("port",)),
            **({"roles": True} if roles else {}),
        },
        "configuration": configuration,
        **machine,
    }


def write_templates(subjects: Sequence[Subject], folder: Path) -> list[str]:
    """Writes the templates that these subjects need besides the node's; returns their files.

    Raises:
        DeviceError: a VM's image can't be made.
    """
    written = []
    for subject in subjects:
        if template_name(subject) != _name(subject):
            continue
        folder.mkdir(exist_ok=True)
        file = folder / f"{_name(subject)}.yaml"
        file.write_text(yaml.safe_dump(template_of(subject, folder)))
        written.append(str(file))
    return list(dict.fromkeys(written))
