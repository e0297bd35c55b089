# SPDX-License-Identifier: Apache-2.0
"""One driver per soft switch that can steer a graph's traffic."""
