# SPDX-License-Identifier: Apache-2.0
"""Names for what is made on the machine: different things never get the same one.

A name that is put together from several (graph `a`, VNF `b-c`) with a separator that may itself
occur in them is also that of others (graph `a-b`, VNF `c`). So a name is a readable part, for
people, and a digest of all parts, which alone tells things apart.
"""

import hashlib
import json

_READABLE = 40
_DIGEST_BYTES = 8
_KEPT = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def digest_of(*parts: str, size: int = _DIGEST_BYTES) -> str:
    """`size` octets in hexadecimal that stand for these parts, in this order and division."""
    text = json.dumps(parts)  # ASCII, lone surrogates included; quotes keep the parts apart
    return hashlib.blake2b(text.encode(), digest_size=size).hexdigest()


def readable(*parts: str) -> str:
    """The parts in ASCII letters, digits, `.`, `_` and `-`, shortened: not distinct by itself."""
    return "".join(c if c in _KEPT else "_" for c in "-".join(parts))[:_READABLE]


def distinct(*parts: str) -> str:
    """A name of at most 57 characters, fit for files, cgroups, namespaces and processes."""
    return f"{readable(*parts)}-{digest_of(*parts)}"
