# SPDX-License-Identifier: Apache-2.0
"""The switch drivers by name."""

from headrace.machine.processes import Supervisor
from headrace.switches.base import DriverFactory, SwitchDriver, SwitchError, SwitchSettings
from headrace.switches.headrace_switch import HeadraceDriver
from headrace.switches.linux_bridge import LinuxBridgeDriver
from headrace.switches.ovs_dpdk import OvsDpdkDriver

DRIVERS: dict[str, DriverFactory] = {
    HeadraceDriver.name: HeadraceDriver,
    OvsDpdkDriver.name: OvsDpdkDriver,
    LinuxBridgeDriver.name: LinuxBridgeDriver,
}


def make_driver(name: str, settings: SwitchSettings, supervisor: Supervisor) -> SwitchDriver:
    """The driver `name`.

    Raises:
        SwitchError: the name is unknown.
    """
    if name not in DRIVERS:
        raise SwitchError(f"no switch is called {name!r}; known:{', '.join(DRIVERS)}")
    return DRIVERS[name](settings, supervisor)
