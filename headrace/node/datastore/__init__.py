# SPDX-License-Identifier: Apache-2.0
"""The datastore: templates and images that clients bring, or that another datastore has."""
