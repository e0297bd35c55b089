# SPDX-License-Identifier: Apache-2.0
"""`headrace bench channels`: what each kind of channel between two VNFs carries.

One producer and one consumer, each a process on a core, in turn on every kind: through the kernel,
by virtio and memif, by Headrace's shared memory through the switch and past it, and on a bare ring,
which is what the machine itself allows.
"""
