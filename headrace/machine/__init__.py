# SPDX-License-Identifier: Apache-2.0
"""What this machine gives: processes, programs, hugepages, its clock."""
