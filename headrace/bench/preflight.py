# SPDX-License-Identifier: Apache-2.0
"""Information printed before a campaign: the core plan, and what the machine lacks."""

from collections.abc import Iterator
from pathlib import Path

from headrace.bench.core_plan import CorePlan


def _free_hugepages() -> int:
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("HugePages_Free:"):
            return int(line.split()[1])
    return 0


def preflight(plan: CorePlan) -> Iterator[str]:
    """Lines to print before the campaign: the core plan and what the machine lacks."""
    yield (
        f"cores: switch {plan.switch}, generator {plan.generator}, VNFs {plan.vnf}, "
        f"control {plan.control}"
    )
    for vnfs in (0, 3):
        reason = plan.oversubscribed(vnfs)
        if reason:
            what = f"graphs with up to {vnfs} VNFs" if vnfs else "port to port"
            yield f"oversubscribed, {what}: {reason}"
    pages = _free_hugepages()
    if pages == 0:
        yield "no free hugepages: everything runs on ordinary pages; `make setup` makes some"
    else:
        yield f"hugepages: {pages} free"
