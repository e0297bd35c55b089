# SPDX-License-Identifier: Apache-2.0
"""One driver per way to run a VNF."""
