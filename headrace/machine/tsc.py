# SPDX-License-Identifier: Apache-2.0
"""The frequency of this machine's time stamp counter."""

import functools
import re
from pathlib import Path

_SYSFS = Path("/sys/devices/system/cpu/cpu0/tsc_freq_khz")


@functools.cache
def tsc_hz() -> float:
    """TSC cycles per second: from the kernel, else from the processor's nominal frequency.

    The kernel exports its own calibration only with a driver that few distributions build
    (tsc_freq_khz). Else the nominal frequency in the model name is what an invariant TSC counts at
    ("@ 2.00GHz"); else the frequency that the kernel lists, which on a virtual machine is the
    TSC's.
    """
    if _SYSFS.exists():
        return float(_SYSFS.read_text()) * 1e3
    text = Path("/proc/cpuinfo").read_text()
    nominal = re.search(r"^model name.*@ ([\d.]+)GHz", text, re.MULTILINE)
    if nominal:
        return float(nominal[1]) * 1e9
    listed = re.search(r"^cpu MHz\s*: ([\d.]+)", text, re.MULTILINE)
    return float(listed[1]) * 1e6 if listed else 0.0
