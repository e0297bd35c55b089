# SPDX-License-Identifier: Apache-2.0
"""Results of measurements: records, their database, and statistics computed from them."""

from headrace.results.records import (
    DISTURBED,
    UNITS,
    Campaign,
    Case,
    Fit,
    Placement,
    Purpose,
    Relation,
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
    "Relation",
    "Sample",
    "Shape",
    "Skip",
    "Trial",
]
