# SPDX-License-Identifier: Apache-2.0
"""A page for each paper: its figures drawn anew, ours over them, and what may be said of both."""
