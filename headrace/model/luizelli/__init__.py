# SPDX-License-Identifier: Apache-2.0
"""Luizelli et al. from the coefficients of their Table I: what the paper says, and for which n.

`claims.py` has the statements of the paper's text, `functions.py` the published functions and what
follows from them in closed form (crossovers, the rate at which servers have no cycle left),
`verdicts.py` which statement holds for which number of chains.
"""
