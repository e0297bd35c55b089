# SPDX-License-Identifier: Apache-2.0
"""The errors of a bench."""


class ScenarioError(Exception):
    """A scenario is missing or invalid; the message names the file, the place and the remedy."""


class DeviceError(Exception):
    """A trial could not be run; the message names what failed and the remedy."""
