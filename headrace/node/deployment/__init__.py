# SPDX-License-Identifier: Apache-2.0
"""From a plan to what runs: steps written ahead, taken, undone, and taken again after a crash."""
