# SPDX-License-Identifier: Apache-2.0
"""The tests, one file for each or for a family that has its procedure in common."""
