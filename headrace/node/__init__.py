# SPDX-License-Identifier: Apache-2.0
"""The node: NF-FG model, lifecycle, resources, REST, store."""
