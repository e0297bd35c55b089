# SPDX-License-Identifier: Apache-2.0
"""Scenarios to trials to results; uses the node only through its REST API."""
