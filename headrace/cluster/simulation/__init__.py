# SPDX-License-Identifier: Apache-2.0
"""The controller's core on simulated nodes.

`nodes.py` is the REST API on a model, `demand.py` graphs that come and go, `run.py` the clock,
`outcome.py` what it found.
"""
