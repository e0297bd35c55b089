# SPDX-License-Identifier: Apache-2.0
"""What can go wrong with a bench, in words."""


class ScenarioError(Exception):
    """A scenario is not there or not valid; names the file, the place in it and the remedy."""


class DeviceError(Exception):
    """A trial could not be run; the message names what failed and the remedy."""
