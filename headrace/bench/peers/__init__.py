# SPDX-License-Identifier: Apache-2.0
"""Headrace beside its peers: the same frames, rules and core, interleaved window by window.

Each system is one process with one worker on the same core; all poll the same in-process source
(the flow source plugin on a net_null device) and send to a net_null sink. Only one of them runs
at a time: the others are stopped by SIGSTOP, so that pairs of windows are seconds apart and share
the machine's mood. Figures are medians of windows; ratios are medians of pair ratios.
"""
