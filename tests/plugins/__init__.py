# SPDX-License-Identifier: Apache-2.0
"""The CNI plugin on a real node, by the cases of the specification."""
