# SPDX-License-Identifier: Apache-2.0
"""What was measured: records, the database that keeps them, and the numbers made of them."""

from headrace.results.records import (
    DISTURBED,
    UNITS,
    Campaign,
    Case,
    Fit,
    Placement,
    Purpose,
    Sample,
    Shape,
    Skip,
    Trial,
)

__all__ = [
    "DISTURBED",
    "UNITS",
    "Campaign",
    "Case",
    "Fit",
    "Placement",
    "Purpose",
    "Sample",
    "Shape",
    "Skip",
    "Trial",
]
