# SPDX-License-Identifier: Apache-2.0
"""Where chains of VNFs go: on many servers, and on the cores of one.

`document.py` is the file that people write, `problem.py` the same as arrays, `state.py` what a plan
has taken of each server, `policies.py` and `solver.py` the heuristics, `exact.py` the optimum by
HiGHS for small cases, `bound.py` a lower bound for any, `failures.py` the re-placement of what a
failed server had, `check.py` whether a plan keeps every constraint, computed without the arrays.
"""
