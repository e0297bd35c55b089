# SPDX-License-Identifier: Apache-2.0
"""Controllers that tests run as processes of their own."""
