# SPDX-License-Identifier: Apache-2.0
"""The same score for OpenStack: `weigher.py` for Nova's scheduler, `providers.py` for Placement.

`weigher.py` is the one file that runs in another program: it needs Nova, and nothing of headrace.
"""
