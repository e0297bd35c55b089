# SPDX-License-Identifier: Apache-2.0
"""`headrace bench workers`: what further workers bring, and what it costs that they share.

Every stream has a source, a path through the switch and a sink of its own, and one worker's
affinity. So with one worker all streams are its, and with as many workers as streams each has one.
"""
