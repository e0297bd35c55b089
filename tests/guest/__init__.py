# SPDX-License-Identifier: Apache-2.0
"""Virtual machines and containers on the switch's ports, end to end."""
