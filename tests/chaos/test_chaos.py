# SPDX-License-Identifier: Apache-2.0
"""The chaos run: 1,000 graphs (chaos.py). `make test-all` only; a short one takes two minutes."""

import json
import os

import pytest

from tests.chaos.chaos import chaos

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.full,
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts nodes, mounts a tmpfs"),
]


@pytest.mark.timeout(3600)
async def test_nothing_is_lost_or_left_behind() -> None:
    ledger = await chaos(graphs=int(os.environ.get("HEADRACE_CHAOS_GRAPHS", "1000")), seed=1)
    print(json.dumps(ledger.document(), indent=2))
    assert ledger.found == []
    assert ledger.done["made"] > 0 and ledger.sent > 0
    assert {"node", "switch", "ovsdb-server", "vnf", "disk", "lock", "clock"} <= set(ledger.faults)
