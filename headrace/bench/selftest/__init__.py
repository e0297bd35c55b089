# SPDX-License-Identifier: Apache-2.0
"""`headrace bench selftest`: a fault test of the bench itself.

Faults of known size are put into real programs, and the bench has to find them: the verdict has to
name who limits the rate, and the cost has to follow. The searches on simulated devices are rows
too. `registry.py` lists the parts; another one is one line there.
"""
