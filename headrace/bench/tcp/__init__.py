# SPDX-License-Identifier: Apache-2.0
"""TCP between two network namespaces, as their kernels are by default, over several switches."""
