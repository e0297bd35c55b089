# SPDX-License-Identifier: Apache-2.0
"""What the machine draws: readers of RAPL, IPMI and Redfish, and joules of a packet."""
