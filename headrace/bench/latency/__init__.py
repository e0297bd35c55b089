# SPDX-License-Identifier: Apache-2.0
"""Latency through two vhost-user ports, at fractions of the PDR, beside OVS-DPDK."""
