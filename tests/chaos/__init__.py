# SPDX-License-Identifier: Apache-2.0
"""A node under faults of all kinds while graphs come, change and go; see `chaos.py`."""
