# SPDX-License-Identifier: Apache-2.0
"""`headrace bench chains`: what a chain of pass VNFs costs the switch, by its length.

The same chain between the same two ends on Headrace through the switch, on Headrace with direct
links, and on OVS-DPDK with vhost-user. The switches are driven as `bench peers` drives them: by
OVSDB and OpenFlow, without a node.
"""
