# SPDX-License-Identifier: Apache-2.0
"""The REST API: one module of routes per family of resources; `app` puts them together."""
