# SPDX-License-Identifier: Apache-2.0
"""Tables, plots and the HTML report."""
