# SPDX-License-Identifier: Apache-2.0
"""Headrace nodes under a real control plane of Kubernetes, on one machine: `make test-cluster`."""
