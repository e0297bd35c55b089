# SPDX-License-Identifier: Apache-2.0
"""A small node with a simulated packet path, which can have one of 26 faults."""
