# SPDX-License-Identifier: Apache-2.0
"""`headrace bench terms`: windows that the model's terms are fitted to.

A switch with source and sink in its own worker (headrace/bench/cost) and chains of VNFs in between,
at several sizes, bursts and loads up to near saturation, each from no traffic to no traffic. What
the model is to tell apart is varied: length of the chain, kind of ports, function, size, burst.
"""
