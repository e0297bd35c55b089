# SPDX-License-Identifier: Apache-2.0
"""Searches for the highest load that meets a loss goal: goals, MLRsearch, bisection, bounds."""
