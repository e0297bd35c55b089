# SPDX-License-Identifier: Apache-2.0
"""What goes wrong in fits, apart from the modules that load statsmodels."""


class FitError(Exception):
    """The points do not suffice for the fit; the message says what is missing."""
