# SPDX-License-Identifier: Apache-2.0
"""Formats numbers for people: three digits and a prefix."""

import math

_PREFIXES = ((1e9, "G"), (1e6, "M"), (1e3, "k"))


def digits(value: float, count: int = 3) -> str:
    """`value` with `count` significant digits and no exponent."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    rounded = float(f"{value:.{count}g}")  # 0.9999 is 1.00
    places = max(0, count - 1 - math.floor(math.log10(abs(rounded))))
    return f"{value:.{places}f}"


def rate(pps: float) -> str:
    """Packets per second: `5.21 Mpps`."""
    for factor, prefix in _PREFIXES:
        if pps >= factor:
            return f"{digits(pps / factor)} {prefix}pps"
    return f"{digits(pps)} pps"


def nanoseconds(value: float) -> str:
    """A time: `870 ns`, `12.3 µs`, `4.56 ms`."""
    for factor, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if value >= factor:
            return f"{digits(value / factor)} {unit}"
    return f"{digits(value)} ns"


def quantity(value: float, unit: str) -> str:
    """A value of any unit of headrace.results.records.UNITS."""
    if unit == "pps":
        return rate(value)
    if unit == "ns":
        return nanoseconds(value)
    if unit == "":
        return f"{100 * value:.3g} %"
    return f"{digits(value)} {unit}"


def seconds(value: float) -> str:
    """A duration as `m:ss`."""
    whole = round(max(0.0, value))
    return f"{whole // 60}:{whole % 60:02d}"
