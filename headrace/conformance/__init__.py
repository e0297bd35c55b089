# SPDX-License-Identifier: Apache-2.0
"""The 26 tests of UNIFY D5.6 (Annexes A to C) for any Universal Node, by REST and packets alone."""
