# SPDX-License-Identifier: Apache-2.0
"""`headrace bench cost`: what a packet costs a switch at the margin, and when it is saturated.

Source and sink are in the switch's own worker (dataplane/flowsource), so no generator can be the
limit and no core is needed for one: port to port the switch has its core, with a VNF that has the
other. The source sends bursts of 1, 4 and 32 and Poisson arrivals at several loads; from the
counters of each window the cost is fitted (headrace/model/marginal.py), from the cost the rate of
saturation is predicted, and then it is measured.
"""
