# SPDX-License-Identifier: Apache-2.0
"""Campaigns of an emulated machine, such as the lab guest: never beside those of a real one.

A translated processor is slower than the machine below it, and not in proportion. Its figures
compare subjects of one campaign with one another, and nothing else.
"""

from collections.abc import Mapping
from typing import Any

EMULATED = "emulated"
"""The member of a manifest's `machine` that says so."""
NOTE = (
    "an emulated machine (its processor is translated): figures compare subjects with one another "
    "here, and with nothing else"
)


def is_emulated(manifest: Mapping[str, Any]) -> bool:
    """Whether a campaign was measured on a machine whose processor is translated."""
    return bool(manifest.get("machine", {}).get(EMULATED))
