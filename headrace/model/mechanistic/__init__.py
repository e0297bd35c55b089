# SPDX-License-Identifier: Apache-2.0
"""What each role spends on a packet of any graph, composed of terms that were measured.

`windows.py` turns trials into what each role counted beside what its graph asked of it,
`fitting.py` fits the terms, `polling.py` says how a poller spends its time at a load, `predict.py`
composes a graph, `explain.py` says what dominates and what would change it, `capacity.py` how many
VNFs fit, `validate.py` how far predictions are from trials that the fit has not seen, `learning.py`
follows a machine that changes, `stored.py` is the file that the node reads.
"""
