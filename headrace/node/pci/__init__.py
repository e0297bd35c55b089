# SPDX-License-Identifier: Apache-2.0
"""The machine's PCI network functions: what there are, their virtual functions, who drives them.

| module | what |
|---|---|
| `functions` | discovery from sysfs |
| `virtual` | SR-IOV: how many virtual functions, and what each may do |
| `binding` | which driver a function has: the kernel's own, or vfio-pci for DPDK and VMs |
| `users` | which of the node's ports and virtual machines have a function |

Nothing here needs more than the standard library, but for the netlink of `virtual` (pyroute2).
Every function takes the root of a sysfs, so that tests can bring their own.
"""
