# SPDX-License-Identifier: Apache-2.0
"""VNFs inside the switch: an LSI whose flows are the function (UNIFY D5.6, 1.1.4).

The VNF is an OpenFlow pipeline, given as flows of any number of tables in the notation of
ovs-ofctl. Its ports are numbered from 1 as the graph lists them, and joined with the graph's LSI by
patch ports: a packet goes on within the same burst, and no core, process or copy is spent on it.
"""

from typing import Any

from headrace.engines.base import EngineError, Observed, VnfSpec
from headrace.switches.base import PortKind, SwitchDriver, SwitchError
from headrace.switches.ofctl import check_flows

GRAPH_SETTINGS = frozenset({"flows"})

FUNCTIONS = ("flows",)
_MAX_FLOWS, _MAX_OCTETS = 10_000, 4096


class LsiEngine:
    """OpenFlow pipelines as VNFs, on the node's own switch."""

    name = "lsi"
    port_kinds: tuple[PortKind, ...] = (PortKind.PATCH,)

    def __init__(self, driver: SwitchDriver) -> None:
        self._driver = driver
        self._made: dict[str, str] = {}

    async def check(self, vnf: VnfSpec) -> None:
        """See Engine: the notation of each flow; what the switch refuses is known when it runs."""
        if vnf.function not in FUNCTIONS:
            raise EngineError(f"VNF {vnf.vnf}: engine lsi has no {vnf.function}, only flows")
        for key in vnf.configuration:
            if key != "flows":
                raise EngineError(f"VNF {vnf.vnf}: configuration.{key}: there is no such key")
        try:
            await check_flows(_flows(vnf))
        except SwitchError as error:
            raise EngineError(f"VNF {vnf.vnf}: configuration.flows: {error}") from error

    async def ensure(self, vnf: VnfSpec) -> None:
        """See Engine: its LSI has been made with its ports."""
        await self.check(vnf)
        try:
            await self._driver.replace_flows(_lsi(vnf), _flows(vnf))
        except SwitchError as error:
            if vnf.name not in self._made:  # else it goes on with the flows that it has
                await self.stop(vnf)
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        self._made[vnf.name] = vnf.digest

    async def stop(self, vnf: VnfSpec) -> None:
        """See Engine."""
        self._made.pop(vnf.name, None)
        try:
            await self._driver.delete_lsi(_lsi(vnf))
        except SwitchError as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error

    def running(self, vnf: VnfSpec) -> bool:
        """See Engine: its flows have been installed since the node was started."""
        return self._made.get(vnf.name) == vnf.digest

    def observed(self, vnf: VnfSpec) -> Observed | None:
        """See Engine: no process."""
        return Observed(engine=self.name) if vnf.name in self._made else None

    async def counters(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine: what its LSI's ports have counted."""
        try:
            rows = await self._driver.port_statistics(_lsi(vnf))
        except SwitchError as error:
            raise EngineError(f"VNF {vnf.vnf}: {error}") from error
        by_name = {row.port: row for row in rows}
        ports = []
        for port in vnf.ports:
            row = by_name.get(port.switch_port.options["peer"])
            kinds = ("rx_packets", "tx_packets", "rx_dropped", "tx_dropped")
            ports.append({"name": port.id, **{k: getattr(row, k) if row else 0 for k in kinds}})
        return {"ports": ports}

    async def cycles(self, vnf: VnfSpec) -> dict[str, Any]:
        """See Engine: they are the switch's."""
        return {
            "approximate": True,
            "busy_cycles": None,
            "idle_cycles": None,
            "packets": None,
            "reason": "an LSI is part of the switch; its cost is in the switch's cycles",
        }

    def processes(self, vnf: VnfSpec) -> tuple[str, ...]:
        """See Engine: none."""
        return ()


def _lsi(vnf: VnfSpec) -> str:
    return vnf.ports[0].switch_port.options["lsi"]


def _flows(vnf: VnfSpec) -> list[str]:
    """The flows of the configuration.

    Raises:
        EngineError: they are no list of lines, or too many.
    """
    flows = vnf.configuration.get("flows")
    where = f"VNF {vnf.vnf}: configuration.flows"
    if not isinstance(flows, list) or not flows:
        raise EngineError(f"{where}: give a list of flows, as ovs-ofctl writes them")
    if len(flows) > _MAX_FLOWS:
        raise EngineError(f"{where}: {len(flows)} flows; at most {_MAX_FLOWS} are possible")
    for number, flow in enumerate(flows):
        if not isinstance(flow, str) or not flow.isprintable() or len(flow) > _MAX_OCTETS:
            raise EngineError(f"{where}[{number}]: is no line of text")
        if flow.lstrip().startswith("#") or not flow.strip():
            raise EngineError(f"{where}[{number}]: is no flow")
    return flows
