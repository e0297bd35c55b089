# SPDX-License-Identifier: Apache-2.0
"""A node: one switch, its engines, its store and its graphs, put together from a configuration.

    rest -> Node -> GraphManager -> plan (pure) and Transition -> SwitchDriver, Engine

Starting adopts what still runs; closing leaves it running. Only `tear_down.py` ends it.
"""

import asyncio
import contextlib
import logging
import platform
import signal
from importlib.metadata import version
from pathlib import Path
from typing import Any

from headrace.engines.base import Engine, EngineError, VnfSpec, engine_of
from headrace.engines.vm import VmEngine
from headrace.machine.places import database, image_directory
from headrace.machine.processes import Supervisor, make_private
from headrace.node import templates
from headrace.node.access.lockout import Lockout
from headrace.node.access.users import Users
from headrace.node.config import NodeConfig
from headrace.node.datastore.datastore import Datastore
from headrace.node.deployment.recovery import RecoveringGraphs
from headrace.node.deployment.store import GraphRecord, GraphState, Store
from headrace.node.deployment.transition import Transition
from headrace.node.errors import ConfigError, GraphRefused, NotFound
from headrace.node.events import Events
from headrace.node.host_stack import HostStack
from headrace.node.outer_ports import OuterPorts
from headrace.node.parts import hugepages_used, parts_of, policy_of, prefix_of
from headrace.node.pci.binding import device_file
from headrace.node.pci.functions import PciError, Sysfs
from headrace.node.pci.users import name_of, users_of
from headrace.node.planning.holdings import Others
from headrace.node.planning.inventory import Inventory
from headrace.node.planning.memory import Memory
from headrace.node.planning.policies import POLICIES
from headrace.node.planning.policy import PlacementPolicy
from headrace.node.planning.surroundings import Further, Surroundings
from headrace.node.prediction import LEARNED, NodeModel
from headrace.node.reservations import Reservations
from headrace.node.scaling import Scaler
from headrace.node.supervision import Supervision
from headrace.switches.base import (
    SwitchDriver,
    SwitchError,
)
from headrace.switches.several import SeveralSwitches

log = logging.getLogger("headrace.node")


class Node:
    """A node in its directory `rundir`.

    `driver`, `engines` and `policy` replace the configured ones.
    """

    def __init__(
        self,
        config: NodeConfig,
        rundir: Path,
        driver: SwitchDriver | None = None,
        engines: dict[str, Engine] | None = None,
        policy: PlacementPolicy | None = None,
    ) -> None:
        self.config = config
        self.rundir = rundir.resolve()
        self.prefix = prefix_of(self.rundir)
        make_private(self.rundir)
        self.supervisor = Supervisor(self.rundir)
        self.store = Store(database(self.rundir))
        self.users = Users(self.store)
        self.lockout = Lockout()
        self.hugepages, self.hugepages_note = hugepages_used(config, self.supervisor, self.store)
        parts = parts_of(config, self.rundir, self.supervisor, self.hugepages, self._claim_pci)
        self.driver = driver or parts[0]
        self.engines = engines or parts[1]
        self.datastore = Datastore(
            self.store,
            templates.load(config.templates),
            config.datastore,
            image_directory(self.rundir),
            lambda: self.graphs.holdings.plans(),
        )
        self.outer = OuterPorts(config, self.driver, self.store, self.rundir, self.lsi0)
        self.ports = self.outer.specs
        self.reservations = Reservations(self.store, config)
        self.host_stack = HostStack()
        transition = Transition(self.store, self.driver, self.engines, self.host_stack)
        self.memory = Memory(self.hugepages, required=config.hugepages == "require")
        self.events = Events()
        self.graphs = RecoveringGraphs(
            self.store, transition, self._surroundings, self.memory, self.events
        )
        self.outer.prepare, self.outer.users = self.graphs.prepare, self.graphs.holdings.users
        self.outer.repair = self.graphs.repair
        self.supervision = Supervision(self.store)
        self.scaler = Scaler(self.graphs, self.engines, self.events)
        self.graphs.changed = self.supervision.forget
        kinds = [port.kind.value for port in self.ports.values()]
        self.model = NodeModel(config, self.driver.name, kinds)
        self.model.restore(self.store.meta(LEARNED))
        self.graphs.drafts.predicted = self.model.with_prediction
        self.policy = policy or policy_of(config.placement, self.model)
        self.graphs.held = self.supervision.held
        self.graphs.switch_down = self._switch_down
        self._filling = False
        self.paused = False
        self._adopted = False
        self.version = ""
        self.sysfs = Sysfs()

    def _surroundings(self, others: Others) -> Surroundings:
        return Surroundings(
            config=self.config,
            capabilities=self.driver.capabilities,
            switch=self.driver.name,
            rundir=self.rundir,
            prefix=self.prefix,
            templates=self.datastore.templates(),
            engine_kinds={name: engine.port_kinds for name, engine in self.engines.items()},
            ports=dict(self.ports),
            others=others,
            policy=self.policy,
            reserved=self.reservations.reserved(),
            further=self._further_switches(),
        )

    def _further_switches(self) -> dict[str, Further]:
        """What graphs may name beside the node's first switch."""
        if not isinstance(self.driver, SeveralSwitches):
            return {}
        letters = zip(self.config.switches, self.driver.others.items(), strict=True)
        return {s.name: Further(letter, d.capabilities) for s, (letter, d) in letters}

    @property
    def lsi0(self) -> str:
        """The LSI with the physical ports."""
        return f"{self.prefix}-0"

    # Life.

    async def start(self) -> None:
        """Starts or adopts the switch, then finishes or undoes what the last run left.

        Raises:
            SwitchError, ConfigError: as `start_switch`.
        """
        await self.start_switch()
        await self.recover()

    async def start_switch(self) -> None:
        """Starts or adopts the switch with its physical ports; `recover` goes on with the graphs.

        Raises:
            SwitchError: the switch or one of its physical ports cannot be had.
            ConfigError: the directory belongs to a node with another switch.
        """
        used = self.store.meta("switch")
        further = ", ".join(f"{s.name} ({s.driver})" for s in self.config.switches)
        before = self.store.meta("switches")
        if before is not None and before != further and self.graphs.records():
            raise ConfigError(
                "config",
                f"{self.rundir} holds graphs of a node with the further switches: "
                f"{before or 'none'}; go on with them, or delete the graphs first",
            )
        if used not in (None, self.driver.name):
            raise ConfigError(
                "config",
                f"{self.rundir} holds a node with switch {used}; go on with it (--switch {used}), "
                f"run `headrace down` first, or choose another --rundir",
            )
        place = self.store.meta("rundir") or str(self.rundir)
        if place != str(self.rundir):
            raise ConfigError(
                "config",
                f"{database(self.rundir)} is the state of the node of {place}, whose name is in "
                f"all that it holds; use --rundir {place}, or another --statedir",
            )
        self.store.set_meta("rundir", place)
        self.store.set_meta("switch", self.driver.name)
        self.store.set_meta("switches", further)
        self.store.set_meta("config", self.config.model_dump_json())
        make_private(self.rundir / "ports")
        self.datastore.prepare()
        self._adopted = await self._open_switch()
        self.version = await self.driver.version()

    async def recover(self) -> None:
        """Makes what the graphs on record lack; the API answers meanwhile."""
        await self.graphs.recover(self._adopted)

    async def fill_switch(self) -> None:
        """Starts or adopts the switch and makes it hold LSI-0 and what the graphs need.

        Raises:
            SwitchError: it cannot be had; then it does not run.
        """
        self._filling = True
        try:
            adopted = await self._open_switch()
        finally:
            self._filling = False
        await self.graphs.recover(adopted)

    def _switch_down(self) -> str | None:
        """Why nothing can be changed in the switch now: it has ended, and is not there again."""
        for name in self.driver.watched():
            if self.supervisor.find(name) is None:
                return f"the {name} has ended; the node starts it again"
        return "the switch is being started again" if self._filling else None

    async def _open_switch(self) -> bool:
        """Starts or adopts the switch and makes it hold LSI-0; whether it was adopted.

        Raises:
            SwitchError: it cannot be had; then it does not run.
        """
        async with self.outer.changing:
            return await self._open_switch_alone()

    async def _open_switch_alone(self) -> bool:
        if any(self.supervisor.find(name) is None for name in self.driver.processes()):
            self.graphs.doubt()
        adopted = False
        try:
            adopted = await self.driver.start()
            log.info("%s %s", self.driver.name, "adopted" if adopted else "started")
            await self.graphs.prepare(await self.outer.plan(), adopted)
        except SwitchError:
            if not adopted:
                await self.driver.stop()  # nobody may hold on to a half-made switch
            raise
        return adopted

    async def close(self) -> None:
        """Lets go of switch and VNFs, which run on; work under way is brought to its end."""
        if self.paused:
            await self.pause(False)
        self.supervision.close()
        self.events.close()
        await self.graphs.settle()
        self.model.close()
        await self.host_stack.close()
        close = getattr(self.driver, "close", None)
        if close is not None:
            await close()
        self.store.close()

    async def check(self, graph_id: str, document: dict[str, Any]) -> None:
        """Checks a whole document, the VNFs' configurations included, before anything starts.

        Raises:
            GraphRefused: it cannot be deployed; names the place.
            Busy: another change of this graph is under way.
        """
        vnfs = self.graphs.draft(graph_id, document).vnfs()
        checks = (engine_of(self.engines, vnf).check(vnf) for vnf in vnfs)
        for result in await asyncio.gather(*checks, return_exceptions=True):
            if isinstance(result, EngineError):
                raise GraphRefused("configuration", str(result)) from result
            if result is not None:
                raise result

    # Looking.

    def vnf(self, graph_id: str, vnf_id: str) -> tuple[VnfSpec, Engine]:
        """A VNF of a graph and the engine that runs it.

        Raises:
            NotFound: there is no such graph or VNF.
        """
        for vnf in self.graphs.record(graph_id).plan.vnfs():
            if vnf.vnf == vnf_id:
                return vnf, engine_of(self.engines, vnf)
        raise NotFound("graphs", f"graph {graph_id} has no VNF {vnf_id!r}")

    def inventory(self) -> Inventory:
        """What is taken of cores and memory."""
        polls, reserved = self.driver.capabilities.polls, self.reservations.reserved()
        return Inventory(self.config, polls, self.graphs.holdings.vnfs(), reserved)

    def state_of(self, record: GraphRecord) -> tuple[str, str]:
        """The state of a graph in the original node's words, and what there is to say of it."""
        state = {
            GraphState.RUNNING: "complete",
            GraphState.FAILED: "error",
        }.get(record.state, "in_progress")
        message = record.message
        if state == "in_progress" and not self.graphs.is_worked_on(record.id):
            state = "error"  # its work has ended without an end; `message` says why
        if record.state is GraphState.RUNNING:
            for name in self.driver.watched():
                if self.supervisor.find(name) is None:
                    state, message = "error", f"the {name} has ended; the node starts it again"
            for port in self.outer.lacking(record.plan):
                state, message = "error", f"port {port} is not attached to the node any more"
            for vnf in record.plan.vnfs():
                # A switch that has ended is the cause of more than one VNF: it is named.
                if state != "error" and not engine_of(self.engines, vnf).running(vnf):
                    held = self.supervision.state(vnf).held
                    why = " does not run as wanted; the node starts it again"
                    message = f"VNF {vnf.vnf}{f': {held}' if held else why}"
                    state = "error"
        return state, message

    def status(self, record: GraphRecord) -> dict[str, Any]:
        """All that is known of a graph: its state, and ours beside the original node's words."""
        state, message = self.state_of(record)
        return {
            "status": state,
            "percentage_completed": self.graphs.percentage(record),
            "state": record.state.value,
            "message": message,
            "warnings": list(record.plan.warnings),
            "vnfs": [self._vnf_status(vnf) for vnf in record.plan.vnfs()],
            "placement": record.plan.placement,
            "expired-rules": [
                label.removeprefix(f"{record.id}/") for label in self.graphs.expired(record.id)
            ],
            "end-points": [
                {
                    "id": host.end_point,
                    "interface": self.driver.attach(host.port).iface,
                    "addresses": self.host_stack.addresses(host),
                }
                for host in record.plan.host_interfaces()
            ],
        }

    def _vnf_status(self, vnf: VnfSpec) -> dict[str, Any]:
        """A VNF as it was found on the machine; `engine` is null if nothing of it runs."""
        engine = engine_of(self.engines, vnf)
        observed = engine.observed(vnf)
        return {
            "id": vnf.vnf,
            "template": vnf.template,
            "engine": observed.engine if observed else None,
            "cores": list(observed.cores) if observed else [],
            "user": observed.user if observed else None,
            "ports": {port.id: port.switch_port.kind.value for port in vnf.ports},
            "running": engine.running(vnf),
            **self.supervision.report(vnf),
        }

    async def port_list(self) -> list[dict[str, Any]]:
        """The ports of LSI-0: kind, number, how to attach, counters; these if the switch runs."""
        statistics = {}
        with contextlib.suppress(SwitchError):
            statistics = {(s.lsi, s.port): s for s in await self.driver.port_statistics(self.lsi0)}
        listed, owners = [], self.outer.owners()
        for name, spec in self.ports.items():
            counters = statistics.get((self.lsi0, spec.name))
            listed.append(
                {
                    "name": name,
                    "kind": spec.kind.value,
                    "ofport": counters.ofport if counters else 0,
                    "attach": self.driver.attach(spec).model_dump(exclude_none=True),
                    "users": self.users_of(name),
                    "owner": owners.get(name),
                    "statistics": counters.model_dump(exclude={"lsi", "port", "ofport"})
                    if counters
                    else {},
                }
            )
        return listed

    def users_of(self, name: str) -> list[str]:
        """The graphs that send to or take from the physical port `name`."""
        return self.graphs.holdings.users(self.lsi0, self.ports[name].name)

    def log_of(self, graph_id: str, vnf_id: str) -> Path:
        """What the process of a VNF has written.

        Raises:
            NotFound: there is no such VNF, or it has no process.
        """
        vnf, engine = self.vnf(graph_id, vnf_id)
        names = engine.processes(vnf)
        if not names:
            text = f"VNF {vnf_id!r} of engine {vnf.engine} has no process, so no log"
            raise NotFound("graphs", text)
        return self.supervisor.log_of(names[0])

    def console_of(self, graph_id: str, vnf_id: str) -> Path:
        """What a virtual machine has written on its first serial port.

        Raises:
            NotFound: there is no such VNF, or it is no machine.
        """
        vnf, engine = self.vnf(graph_id, vnf_id)
        if not isinstance(engine, VmEngine):
            raise NotFound("graphs", f"VNF {vnf_id!r} of engine {vnf.engine} has no console")
        return engine.console(vnf)

    def consoles(self) -> list[Path]:
        """The consoles of the virtual machines."""
        engine = self.engines.get("vm")
        if not isinstance(engine, VmEngine):
            return []
        vnfs = self.graphs.holdings.vnfs()
        return [engine.console(vnf) for vnf in vnfs if vnf.engine == engine.name]

    def pci_users(self) -> dict[str, list[str]]:
        """The PCI functions in use, and by whom of this node (pci/users.py)."""
        vnfs = self.graphs.holdings.vnfs()
        return users_of(self.ports, vnfs)

    def _claim_pci(self, address: str, vnf: VnfSpec) -> str | None:
        """Why a virtual machine cannot have a PCI function: not with vfio-pci, or another's."""
        try:
            device_file(address, self.sysfs)
        except PciError as error:
            return f"{error}; PUT /node/pci/{address}/driver binds it"
        others = [user for user in self.pci_users().get(address, []) if user != name_of(vnf)]
        return f"{address} is in use by {', '.join(others)}" if others else None

    def information(self) -> dict[str, Any]:
        """What this node is: GET /node."""
        further = self._further_switches()
        return {
            "name": self.config.name,
            "version": version("headrace"),
            "switch": {
                "name": self.driver.name,
                "version": self.version,
                "lsi0": self.lsi0,
                **self.driver.capabilities.model_dump(mode="json"),
            },
            "switches": [
                {
                    "name": switch.name,
                    "driver": switch.driver,
                    **further[switch.name].capabilities.model_dump(mode="json"),
                }
                for switch in self.config.switches
                if switch.name in further
            ],
            "engines": {
                name: [kind.value for kind in engine.port_kinds]
                for name, engine in self.engines.items()
            },
            "templates": [template.id for template in self.datastore.templates().all()],
            "hugepages": self.hugepages,
            "hugepages_note": self.hugepages_note,
            "kernel": platform.release(),
            "rundir": str(self.rundir),
            "paused": self.paused,
            "graphs": len(self.graphs.records()),
            "placement": {"policy": self.policy.name, "policies": sorted(POLICIES)},
            "recovering": self.graphs.recovering,
        }

    async def pause(self, paused: bool) -> None:
        """Stops (SIGSTOP) or continues (SIGCONT) the switch's and the VNFs' processes."""
        names = list(self.driver.processes())
        for vnf in self.graphs.holdings.vnfs():
            names += engine_of(self.engines, vnf).processes(vnf)
        for name in names:
            process = self.supervisor.find(name)
            if process is not None:
                process.signal(signal.SIGSTOP if paused else signal.SIGCONT)
        self.paused = paused
