# SPDX-License-Identifier: Apache-2.0
"""The nft program, told by JSON what to do and asked by JSON what there is."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from headrace.switches.base import SwitchError

NFT = "/usr/sbin/nft"


async def apply(commands: Sequence[dict[str, Any]]) -> None:
    """Carries out commands as one transaction.

    Raises:
        SwitchError: none of them is carried out; nft's own words.
    """
    await _run(("-j", "-f", "-"), json.dumps({"nftables": list(commands)}))


async def listed(*words: str) -> list[dict[str, Any]]:
    """What `nft -j list WORDS` shows; nothing, if there is no such object.

    Raises:
        SwitchError: nft fails.
    """
    try:
        text = await _run(("-j", "list", *words), "")
    except SwitchError as error:
        if "No such file or directory" in str(error):
            return []
        raise
    found: list[dict[str, Any]] = json.loads(text)["nftables"]
    return found


async def _run(words: Sequence[str], text: str) -> str:
    try:
        nft = await asyncio.create_subprocess_exec(
            NFT,
            *words,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
    except OSError as error:
        raise SwitchError(f"{NFT} cannot be started ({error.strerror}); install nftables") from None
    out, errors = await nft.communicate(text.encode())
    if nft.returncode:
        raise SwitchError(f"nft: {errors.decode(errors='replace').strip()[:2000]}")
    return out.decode()
