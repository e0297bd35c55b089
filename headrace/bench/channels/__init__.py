# SPDX-License-Identifier: Apache-2.0
"""`headrace bench channels`: the packet rate of each kind of channel between two VNFs.

A producer and a consumer, each a process on its core, on every kind in turn: through the kernel, by
virtio and memif, by Headrace's shared memory through the switch and by direct links, and by a bare
ring, which is the upper bound of the machine.
"""
