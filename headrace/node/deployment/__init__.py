# SPDX-License-Identifier: Apache-2.0
"""From a plan to what runs: steps logged, taken, undone, and taken again after a crash."""
