# SPDX-License-Identifier: Apache-2.0
"""Test 15: the same graph with the optimization of placement off and on, and what each uses."""

from dataclasses import dataclass
from typing import Any

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Findings, NotApplicable
from headrace.conformance.graphs import chain, interface, vnf
from headrace.conformance.target import Target

_PLAIN = "first-fit"
"""The policy that does not optimize."""

_VNFS = 3


@dataclass(frozen=True)
class Use:
    """What a graph takes: MB of memory, cores with a poller, the most pollers on one core.

    `cycles` has by policy what the node says that a packet's visits to the VNFs cost.
    """

    memory_mb: int
    cores: int
    most: int
    ports: str
    cycles: dict[str, float]

    def no_more_than(self, other: "Use") -> bool:
        """Whether it takes no more than another one, of anything."""
        return (
            self.memory_mb <= other.memory_mb
            and self.cores <= other.cores
            and self.most <= other.most
        )

    def __str__(self) -> str:
        return f"{self.memory_mb} MB, {self.cores} cores, {self.most} pollers on one at most"


async def _resources(target: Target) -> tuple[int, dict[int, int]]:
    """Memory in use, and the pollers of each core."""
    content: dict[str, Any] = (await target.node.rest.get("/node/resources")).content or {}
    cores = {int(core["core"]): int(core["polling"]) for core in content.get("cores", [])}
    return int((content.get("memory_mb") or {}).get("used") or 0), cores


async def _use(target: Target) -> Use:
    node = target.node
    first, second = target.need_frames()[1]
    vnfs = [vnf(f"v{number}", target.settings.passing) for number in range(_VNFS)]
    document = chain(interface("a", first), interface("b", second), vnfs, "placed")
    memory, before = await _resources(target)
    async with node.with_graph(document) as name:
        more, after = await _resources(target)
        status = await node.status(name)
        rows: list[dict[str, Any]] = status.member("vnfs") or []
        placement: dict[str, Any] = status.member("placement") or {}
    added = {core: count - before.get(core, 0) for core, count in after.items()}
    kinds = sorted({str(kind) for row in rows for kind in (row.get("ports") or {}).values()})
    return Use(
        more - memory,
        sum(1 for count in added.values() if count),
        max(after.values(), default=0),
        ", ".join(kinds),
        {
            policy: float(placement[key])
            for policy, key in (
                (str(placement.get("policy")), "cycles-per-packet"),
                (_PLAIN, f"{_PLAIN}-cycles-per-packet"),
            )
            if placement.get(key) is not None
        },
    )


async def run(target: Target, findings: Findings) -> None:
    """Deploys a graph by both policies and compares the resources in use."""
    node = target.node
    node.need_own("policies of placement")
    policies = await node.member("/node", "placement", "policies") or []
    others = [policy for policy in policies if policy != _PLAIN]
    if not others:
        raise NotApplicable(
            f"the node has no optimization of placement that could be switched on: its policies "
            f"are {', '.join(policies) or 'not told'}"
        )
    if target.others is None:
        raise NotApplicable(
            "the policy is chosen when the node starts: let these tests bring one up (no --url)"
        )
    found: dict[str, Use] = {}
    for policy in (_PLAIN, *others):
        async with target.others.placed_by(policy) as one:
            in_force = await one.node.member("/node", "placement", "policy")
            findings.equal(f"{policy}: the policy in force", policy, in_force)
            found[policy] = await _use(one)
    for policy in others:
        findings.holds(
            f"a chain of {_VNFS} VNFs by {policy} takes no more than by {_PLAIN}",
            found[policy].no_more_than(found[_PLAIN]),
            found[_PLAIN],
            found[policy],
        )
        cycles = found[policy].cycles
        if len(cycles) == 2:
            findings.holds(
                f"by {policy} a packet costs no more cycles of switch and VNFs than by {_PLAIN}",
                cycles[policy] <= cycles[_PLAIN],
                cycles[_PLAIN],
                cycles[policy],
            )
    told = {name: cycles for use in found.values() for name, cycles in use.cycles.items()}
    findings.table(
        f"What a chain of {_VNFS} VNFs takes",
        ("policy", "memory MB", "cores", "pollers on one core at most", "ports", "cycles/packet"),
        [
            (name, use.memory_mb, use.cores, use.most, use.ports, told.get(name, "not told"))
            for name, use in found.items()
        ],
    )


CASES = (
    Case(
        15, "URM/LO: Optimized placement", Part.FUNCTIONS, "The node is up.",
        ("The optimization is off (first-fit); a chain of three VNFs is deployed, the resources in "
         "use are asked for, the graph is deleted.",
         "The optimization is on; the same graph is deployed, and the resources in use are "
         "compared."),
        "With the optimization the graph takes no more memory, cores and pollers on a core than "
        "without.",
        run,
    ),
)  # fmt: skip
