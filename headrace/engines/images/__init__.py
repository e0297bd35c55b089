# SPDX-License-Identifier: Apache-2.0
"""Container images of others: read, checked, unpacked once, and mounted for each VNF.

An image is data that nobody here has made. What it names is looked up within its own directory,
what it holds is counted while it is read, and nothing of it is used before its digests are found
right.
"""


class ImageError(Exception):
    """An image cannot be used; the text says which, why and, if known, the remedy."""
