# SPDX-License-Identifier: Apache-2.0
"""Tests of headrace-vnf as a program."""
