# SPDX-License-Identifier: Apache-2.0
"""Headrace: an NFV node that forwards fast and measures what forwarding costs."""
