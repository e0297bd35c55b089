# SPDX-License-Identifier: Apache-2.0
"""A node that an operator has started, on this machine or another: the device of a lab."""

from typing import Any

from headrace.bench.core_plan import CorePlan
from headrace.bench.errors import DeviceError
from headrace.bench.lab import Lab
from headrace.bench.node_client import NodeClient
from headrace.bench.node_process import PORTS, NodeProcess
from headrace.bench.subject import DRIVERS, Subject

ANSWER_S = 10.0


class RunningNode(NodeProcess):
    """One that is measured and neither started nor stopped; its ports are `in0` and `out0`."""

    def __init__(self, subject: Subject, plan: CorePlan, lab: Lab) -> None:
        super().__init__(subject, plan)
        self._lab = lab
        self.client = NodeClient(lab.device.node)

    async def up(self) -> dict[str, Any]:
        """Checks that it is there, with the subject's switch and the lab's ports.

        Raises:
            DeviceError: it does not answer, or is another than the subject asks for.
        """
        where = self._lab.device.node
        told = await self.client.wait_up(ANSWER_S)
        wanted = DRIVERS[self.subject.switch][0]
        switch = told.get("switch")
        name = switch.get("name") if isinstance(switch, dict) else switch
        if name != wanted:
            raise DeviceError(f"{where} has the switch {name}, the subject is {wanted}")
        there = {port.name for port in await self.client.ports()}
        missing = [port for port in PORTS if port not in there]
        if missing:
            raise DeviceError(f"{where} has no port {', '.join(missing)}; it has {sorted(there)}")
        return told

    async def down(self) -> None:
        """Leaves it as it is."""
        await self.client.close()
        self.rundir.rmdir()
