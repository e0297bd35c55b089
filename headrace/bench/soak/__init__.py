# SPDX-License-Identifier: Apache-2.0
"""A switch under change for as long as one likes, with every packet accounted for."""
