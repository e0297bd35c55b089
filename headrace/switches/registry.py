# SPDX-License-Identifier: Apache-2.0
"""The switch drivers by name: a new one is a file and a line here.

They are imported when a switch is made: commands and planning need their names alone.
"""

from importlib import import_module

from headrace.machine.processes import Supervisor
from headrace.switches.base import DriverFactory, SwitchDriver, SwitchError, SwitchSettings

DRIVERS = {
    "headrace": "headrace_switch.HeadraceDriver",
    "ovs-dpdk": "ovs_dpdk.OvsDpdkDriver",
    "ovs": "ovs.OvsDriver",
    "linux-bridge": "linux_bridge.LinuxBridgeDriver",
    "openflow": "openflow_switch.OpenFlowDriver",
    "vpp": "vpp.VppDriver",
    "sr-iov": "sriov.SriovDriver",
}
"""Module and class of each."""


def driver_class(name: str) -> DriverFactory:
    """The class of the driver `name`.

    Raises:
        SwitchError: the name is unknown.
    """
    if name not in DRIVERS:
        raise SwitchError(f"no switch is called {name!r}; known: {', '.join(DRIVERS)}")
    module, _, found = DRIVERS[name].partition(".")
    factory: DriverFactory = getattr(import_module(f"headrace.switches.{module}"), found)
    return factory


def make_driver(name: str, settings: SwitchSettings, supervisor: Supervisor) -> SwitchDriver:
    """The driver `name`.

    Raises:
        SwitchError: the name is unknown, or the driver's options are wrong.
    """
    return driver_class(name)(settings, supervisor)
