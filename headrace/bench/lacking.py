# SPDX-License-Identifier: Apache-2.0
"""What this machine lacks: the reason of a row that can't be measured, before anything starts.

A need is a word, with a number or name after a colon where it takes one: see `NEEDS`.
"""

import platform
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from headrace.bench.core_plan import CorePlan
from headrace.bench.lab import Lab
from headrace.bench.power.readers import why_no_power
from headrace.bench.scenario import Scenario
from headrace.bench.subject import DRIVERS, IN_PROCESS, Subject
from headrace.bench.vm_image import why_no_vm
from headrace.results import Case

_PCI = Path("/sys/bus/pci/devices")
_NETWORK = "0x02"
"""The first octet of a network controller's class (PCI Code and ID Assignment, 1.11)."""
_VIRTUAL = ("0x1af4", "0x1d0f")
"""Vendors of NICs that a hypervisor emulates: virtio and ENA."""


def _network_devices() -> list[Path]:
    found = []
    for place in sorted(_PCI.glob("*")):
        try:
            if (place / "class").read_text().startswith(_NETWORK):
                found.append(place)
        except OSError:
            continue
    return found


def _nics(count: str) -> str | None:
    wanted = int(count or "2")
    found = [p for p in _network_devices() if _text(p / "vendor") not in _VIRTUAL]
    if len(found) >= wanted:
        return None
    return f"needs {wanted} ports of a NIC on the PCI bus: this machine has {len(found)}"


def _text(path: Path) -> str:
    try:
        return path.read_text().strip()
    except OSError:
        return ""


def _sriov(_: str) -> str | None:
    if any(int(_text(p / "sriov_totalvfs") or 0) > 0 for p in _network_devices()):
        return None
    return "needs a NIC with SR-IOV: no device of this machine has sriov_totalvfs"


def _iommu(_: str) -> str | None:
    if any(Path("/sys/kernel/iommu_groups").glob("*")):
        return _nics("1")
    return "needs an IOMMU and a NIC to pass through: /sys/kernel/iommu_groups is empty"


def _kernel_ovs(_: str) -> str | None:
    release = platform.release()
    modules = Path("/lib/modules") / release
    if Path("/sys/module/openvswitch").exists() or any(modules.rglob("openvswitch.ko*")):
        return None
    return f"the kernel {release} has no Open vSwitch datapath (module openvswitch)"


def _vpp(_: str) -> str | None:
    return None if shutil.which("vpp") else "VPP is not installed (program vpp)"


def _processor(name: str) -> str | None:
    model = re.search(r"^model name\s*: (.*)$", _text(Path("/proc/cpuinfo")), re.MULTILINE)
    found = model[1] if model else platform.machine()
    return None if name.lower() in found.lower() else f"needs an {name}: this is an {found}"


def _architecture(name: str) -> str | None:
    found = platform.machine()
    return None if found == name else f"needs a machine of {name}: this is one of {found}"


def _numa(count: str) -> str | None:
    found = len(list(Path("/sys/devices/system/node").glob("node[0-9]*"))) or 1
    if found >= int(count or "2"):
        return None
    return f"needs {count or 2} NUMA nodes: this machine has {found}"


def _kvm(_: str) -> str | None:
    if not Path("/dev/kvm").exists():
        return "needs KVM: there is no /dev/kvm"
    flags = re.search(r"^(?:flags|Features)\s*: (.*)$", _text(Path("/proc/cpuinfo")), re.MULTILINE)
    if flags and {"vmx", "svm"} & set(flags[1].split()):
        return None
    return "needs KVM: there is a /dev/kvm, but the processor has neither VMX nor SVM"


def _power(_: str) -> str | None:
    return why_no_power()


NEEDS: dict[str, Callable[[str], str | None]] = {
    "nic": _nics,
    "sr-iov": _sriov,
    "passthrough": _iommu,
    "kernel-ovs": _kernel_ovs,
    "vpp": _vpp,
    "processor": _processor,
    "architecture": _architecture,
    "numa": _numa,
    "kvm": _kvm,
    "power": _power,
}
"""What can be needed, and who finds out whether it is there: None if it is."""
OF_SWITCH = {
    "ovs-kernel": "kernel-ovs",
    "vpp": "vpp",
    "sr-iov": "sr-iov",
    "pci-passthrough": "passthrough",
}


def lack(need: str, lab: Lab | None = None) -> str | None:
    """The reason why a need is not met here, or in a lab, or None.

    Raises:
        KeyError: there is no such need.
    """
    word, _, what = need.partition(":")
    if word == "nic" and lab is not None:
        return None
    return NEEDS[word](what)


def lack_of_subject(subject: Subject, plan: CorePlan, lab: Lab | None = None) -> str | None:
    """The reason why a subject can't run here, or in a lab, or None."""
    other = lab is not None and bool(lab.device.node) and subject.ports == "nic"
    if other and subject.switch in DRIVERS:
        return None  # what the other machine has, its node knows
    if subject.switch in OF_SWITCH:
        found = lack(OF_SWITCH[subject.switch])
        if found is not None:
            return found
    if subject.switch not in DRIVERS:
        return (
            f"{subject.switch} is here, but its functions are a VNF's: a graph names them by `pci` "
            "of a template of engine vm (docs/graphs.md)"
        )
    if subject.ports == "nic" and lab is None:
        return lack("nic:2") or "which NICs are meant says a lab file (--lab, docs/papers.md)"
    if subject.engine == "vm" and (found := why_no_vm()) is not None:
        return found
    wanted = subject.workers + 1
    if len(plan.usable) < wanted:
        workers = f"{subject.workers} workers" if subject.workers > 1 else "a worker"
        return f"{workers} and a core for the rest: this machine has {len(plan.usable)} cores"
    return None


def lacks(scenario: Scenario, plan: CorePlan, lab: Lab | None = None) -> dict[Case, str]:
    """The scenario's cases that can't be measured here, with their reasons."""
    found = {}
    for subject in scenario.subjects:
        reason = lack_of_subject(subject, plan, lab)
        if reason is None:
            continue
        for case in scenario.cases():
            if subject.runs(case):
                found[case] = reason
    return found


def runnable(scenario: Scenario, plan: CorePlan, lab: Lab | None = None) -> Scenario | None:
    """The scenario with the subjects that can run here; None if there is none."""
    here = [one for one in scenario.subjects if lack_of_subject(one, plan, lab) is None]
    return scenario.model_copy(update={"subjects": here}) if here else None


def in_words(needs: list[str], subjects: list[Subject], plan: CorePlan) -> dict[str, str]:
    """What this machine lacks of what an experiment needs: a short word, and the reason."""
    found = {need: lack(need) for need in needs}
    for one in subjects:
        reason = lack_of_subject(one, plan)
        by_switch = one.switch in OF_SWITCH and lack(OF_SWITCH[one.switch]) == reason
        word = OF_SWITCH[one.switch] if by_switch else f"cores:{one.workers + 1}"
        if one.switch in OF_SWITCH and one.switch not in DRIVERS and not by_switch:
            word = one.switch
        found.setdefault(word, reason)
    return {word: reason for word, reason in found.items() if reason is not None}


def oversubscribes(scenario: Scenario, plan: CorePlan) -> str | None:
    """A note if the largest graph has too few cores for a valid figure, or None."""
    vnfs = max((max(graph.vnfs, default=0) for graph in scenario.graphs), default=0)
    inside = all(one.ports == IN_PROCESS for one in scenario.subjects)
    lacking = (2 if inside else 3) + vnfs - len(plan.usable)
    if lacking <= 0 or not vnfs:
        return None
    return f"{vnfs} VNF{'s' if vnfs > 1 else ''} and control share {len(plan.vnf)} core"
