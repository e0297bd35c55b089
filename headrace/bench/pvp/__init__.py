# SPDX-License-Identifier: Apache-2.0
"""`headrace bench pvp`: a VNF between two vhost-user ports of a switch, each on a core of its own.

The way that most VNFs are run: in-process source -> switch -> VNF -> switch -> in-process sink.
Source and sink are in the switch's worker, as in `bench peers`, so one core is the switch's and one
the VNF's. Beside it the floor: what DPDK's testpmd takes to forward between two such ports.
"""
