# SPDX-License-Identifier: Apache-2.0
"""`headrace bench chains`: the switch's cost of a chain of pass VNFs, by length.

The same chain between the same two ends: on Headrace through the switch, on Headrace with direct
links, and on OVS-DPDK with vhost-user. The switches are controlled as in `bench peers`: by OVSDB
and OpenFlow, without a node.
"""
