# SPDX-License-Identifier: Apache-2.0
"""`headrace bench lifecycle`: how fast graphs come, change and go, and what comes back."""
