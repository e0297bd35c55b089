# SPDX-License-Identifier: Apache-2.0
"""The machine's resources: processes, programs, hugepages, its clock."""
