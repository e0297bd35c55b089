# SPDX-License-Identifier: Apache-2.0
"""Cost functions, prediction and placement, from stored results only."""
