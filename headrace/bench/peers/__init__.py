# SPDX-License-Identifier: Apache-2.0
"""Headrace compared with its peers: the same frames, rules and core, in interleaved windows.

Each system is one process with one worker on the same core; all poll the same in-process source
(the flow source plugin on a net_null device) and send to a net_null sink. Only one of them runs
at a time: the others are stopped by SIGSTOP, so that the windows of a pair are seconds apart, in
the same state of the machine. Figures are medians of windows; ratios are medians of pair ratios.
"""
