# SPDX-License-Identifier: Apache-2.0
"""Who may do what with a node: users, groups, tokens, permissions, quotas, the audit log."""
