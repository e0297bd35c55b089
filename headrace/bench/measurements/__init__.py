# SPDX-License-Identifier: Apache-2.0
"""What a scenario can measure of a case beside rates, latency and cost: one file for each."""
