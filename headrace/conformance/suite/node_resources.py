# SPDX-License-Identifier: Apache-2.0
"""Tests 1 and 2: what the node is and can do, and what of it is available, beside the host's tools.

Cores, memory and disk are read by lscpu, from /proc/meminfo and by df, and must be what the node
says: capacities exactly (memory and disk to a thousandth), what is available to a twentieth of the
capacity, since it changes between two readings.
"""

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Findings
from headrace.conformance.resources import of_machine
from headrace.conformance.target import Target

_SAME, _CLOSE = 0.001, 0.05


async def information(target: Target, findings: Findings) -> None:
    """Test 1."""
    node = target.node
    node.need_own("node information")
    said = await node.rest.get("/node")
    findings.demand("the node answers with 200", said.status == 200, 200, said)
    # Interfaces come and go with others' work: those before and after the answer are known.
    links = set(await target.host.links()) if target.host is not None else set()
    answer = await node.rest.get("/node/resources")
    findings.demand("and so it does for its resources", answer.status == 200, 200, answer)
    reported = of_machine(answer.content)
    if target.host is not None:
        processor = await target.host.processor()
        findings.equal("processing capacity: cores (lscpu)", processor.cpus, reported.cpus)
        findings.equal("processor (lscpu)", processor.model, reported.model)
        findings.equal("platform (lscpu)", processor.architecture, reported.architecture)
        memory = target.host.memory()
        findings.near("memory, octets (/proc/meminfo)", memory.total, reported.memory,
                      _SAME * memory.total)  # fmt: skip
        disk = await target.host.disk(reported.disk_path or "/")
        findings.near("disk, octets (df)", disk.total, reported.disk, _SAME * disk.total)
        links |= set(await target.host.links())
        named = set(reported.interfaces or ())
        findings.holds("its network interfaces are the kernel's (ip link)",
                       bool(named) and named <= links, "known to the kernel",
                       named - links or "all are")  # fmt: skip
    else:
        findings.note("the node runs on another machine: nothing is compared with its tools")
        for what, value in (("cores", reported.cpus), ("memory", reported.memory),
                            ("disk", reported.disk)):  # fmt: skip
            findings.holds(f"it reports its {what}", bool(value), "a number", value)
    ports = said.member("switch", "port_kinds")
    findings.holds("kinds of ports", bool(ports), "a list", ports)
    space = said.member("switch", "end_points")
    findings.holds("flow space: types of end-points", bool(space), "a list", space)
    engines = said.member("engines")
    findings.holds("types of VNFs: engines", bool(engines), "a list", list(engines or ()))
    templates = said.member("templates")
    findings.holds("and templates", bool(templates), "a list", templates)
    listed = answer.member("ports")
    findings.holds("list of ports", bool(listed), "a list",
                   [port.get("name") for port in listed or ()])  # fmt: skip


async def available(target: Target, findings: Findings) -> None:
    """Test 2."""
    node = target.node
    node.need_own("available resources")
    host = target.need_host()
    answer = await node.rest.get("/node/resources")
    findings.demand("the node answers with 200", answer.status == 200, 200, answer)
    reported = of_machine(answer.content)
    memory = host.memory()
    findings.near("available memory, octets (/proc/meminfo)", memory.available,
                  reported.free_memory, _CLOSE * memory.total)  # fmt: skip
    disk = await host.disk(reported.disk_path or "/")
    findings.near("available disk, octets (df)", disk.available, reported.free_disk,
                  _CLOSE * disk.total)  # fmt: skip
    usable = len(host.usable_cores())
    findings.holds("processing capacity that is left: cores for VNFs without a poller",
                   reported.free_cpus is not None and 0 <= reported.free_cpus <= usable,
                   f"0 to {usable}", reported.free_cpus)  # fmt: skip
    ports = answer.member("ports") or []
    findings.holds("ports, and who uses them", bool(ports) and all("used_by" in p for p in ports),
                   "a list", ports)  # fmt: skip


_BOOTED = "The node is up."

CASES = (
    Case(
        1, "RMI: Node information and capabilities", Part.INTERFACES, _BOOTED,
        ("Information, capabilities and resources are asked for.",
         "Cores, model, platform, memory, disk and interfaces are compared with lscpu, "
         "/proc/meminfo, df and ip."),
        "All capacities as the host's tools have them; kinds of ports, types of end-points, "
        "engines, templates and the list of ports.",
        information,
    ),
    Case(
        2, "RMI: Node available resources", Part.INTERFACES, _BOOTED,
        ("Resources are asked for.", "Memory and disk are compared with /proc/meminfo and df."),
        "What is available of memory and disk, as the host's tools have it to a twentieth of the "
        "capacity; cores that are left, and ports with their users.",
        available,
    ),
)  # fmt: skip
