# SPDX-License-Identifier: Apache-2.0
"""`headrace bench vnfs`: the cost per packet of each sample VNF.

One VNF at a time runs on one core between an in-process source (prepared frames, never empty) and
a sink, so that only its cycles are measured: no switch, no port between processes.
"""
