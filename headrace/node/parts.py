# SPDX-License-Identifier: Apache-2.0
"""What a node is put together from: names, switch driver, engines, policy; nothing is started."""

import hashlib
from pathlib import Path
from string import ascii_lowercase

from headrace.engines.base import Engine
from headrace.engines.confinement import WEIGHT, Confinement
from headrace.engines.registry import EngineSettings, make_engines
from headrace.engines.vm import Claim, nothing_given
from headrace.machine.eal import hugepages_lacking
from headrace.machine.processes import Supervisor
from headrace.node.config import NodeConfig
from headrace.node.deployment.store import Store
from headrace.node.errors import ConfigError
from headrace.node.pci.users import function_of
from headrace.node.planning.policies import POLICIES
from headrace.node.planning.policy import PlacementPolicy
from headrace.node.prediction import NodeModel
from headrace.switches.base import PortKind, SwitchDriver, SwitchSettings
from headrace.switches.registry import make_driver
from headrace.switches.several import SeveralSwitches


def prefix_of(rundir: Path) -> str:
    """Six characters that mark everything this node makes outside its directory."""
    return f"hr{hashlib.blake2b(str(rundir.resolve()).encode(), digest_size=2).hexdigest()}"


def hugepages_used(config: NodeConfig, supervisor: Supervisor, store: Store) -> tuple[bool, str]:
    """Whether switch and VNFs use hugepages, and why not.

    A switch that already runs decides for those that join it: its own pages are not free any more.

    Raises:
        ConfigError: node.yaml requires hugepages and there are too few.
    """
    stored = store.meta("hugepages")
    if stored is not None and supervisor.find("switch") is not None:
        return stored == "yes", store.meta("hugepages_note") or ""
    lacking = None
    if config.hugepages != "off":
        lacking = hugepages_lacking(config.switch_memory_mb)
    if lacking is not None and config.hugepages == "require":
        raise ConfigError("config", f"hugepages: {lacking}")
    used = config.hugepages != "off" and lacking is None
    note = lacking or ("" if used else "switched off in node.yaml")
    store.set_meta("hugepages", "yes" if used else "no")
    store.set_meta("hugepages_note", note)
    return used, note


def parts_of(
    config: NodeConfig,
    rundir: Path,
    supervisor: Supervisor,
    hugepages: bool,
    claim: Claim = nothing_given,
) -> tuple[SwitchDriver, dict[str, Engine]]:
    """The switch driver and the engines of a node's configuration; nothing is started."""
    settings = SwitchSettings(
        rundir=rundir,
        prefix=prefix_of(rundir),
        cores=tuple(config.cores.switch),
        control_cores=tuple(config.cores.control),
        memory_mb=config.switch_memory_mb,
        hugepages=hugepages,
        pci=any(function_of(port.options.get("devargs", "")) for port in config.ports or []),
        max_sleep_us=config.switch_sleep_us,
        plugins=tuple(config.dpdk_plugins),
        options=config.switch_options,
    )
    # VNFs that yield share their cores by yielding, not by weight.
    confinement = Confinement(rundir, None if config.idle == "yield" else WEIGHT)
    driver = make_driver(config.switch, settings, supervisor)
    if config.switches:
        driver = SeveralSwitches(driver, _further(config, settings, supervisor, driver))
    prefix = prefix_of(rundir)
    engines = make_engines(
        EngineSettings(rundir, prefix, supervisor, hugepages, confinement, claim, driver)
    )
    return driver, engines


def _further(
    config: NodeConfig, settings: SwitchSettings, supervisor: Supervisor, first: SwitchDriver
) -> dict[str, SwitchDriver]:
    """The switches that graphs may name, by the letters that end the names of their LSIs.

    Raises:
        ConfigError: one cannot be joined with the first.
    """
    found = {}
    for letter, switch in zip(ascii_lowercase[1:], config.switches, strict=False):
        own = settings.model_copy(update={"instance": letter, "options": switch.options})
        driver = make_driver(switch.driver, own, supervisor)
        lacking = [
            text
            for kind, has, text in (
                (PortKind.VETH, first.capabilities.offered, f"{config.switch} makes no veth pairs"),
                (PortKind.SYSTEM, driver.capabilities.offered, f"{switch.driver} takes none"),
            )
            if kind not in has
        ]
        if lacking:
            text = f"switches: {switch.name} cannot be joined with the first: {lacking[0]}"
            raise ConfigError("config", text)
        found[letter] = driver
    return found


def policy_of(name: str, model: NodeModel) -> PlacementPolicy:
    """The placement policy of this name, which may ask the node's model.

    Raises:
        ConfigError: there is none.
    """
    if name not in POLICIES:
        known = ", ".join(sorted(POLICIES))
        raise ConfigError("config", f"placement: there is no policy {name!r}; there are: {known}")
    return POLICIES[name](model.terms)
