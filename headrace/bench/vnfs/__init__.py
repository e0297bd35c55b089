# SPDX-License-Identifier: Apache-2.0
"""`headrace bench vnfs`: what a packet costs in each sample VNF.

One VNF at a time runs on one core between an in-process source (prepared frames, never empty) and
a sink, so that its cycles are its own: no switch, no port between processes.
"""
