# SPDX-License-Identifier: Apache-2.0
"""Another datastore, asked by HTTP for templates and images that this node has not.

The places are those of node.yaml alone, and redirections are not followed: a template, which a
client may have written, does not make the node send requests to whatever it names.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from headrace.node.config import DatastoreConfig
from headrace.node.errors import GraphRefused
from headrace.node.rest.bodies import MAX_BYTES, parse

_TIMEOUT_S = 10.0


class Remote:
    """The datastore at `config.url`, and the other places that images may come from."""

    def __init__(self, config: DatastoreConfig) -> None:
        self.url = config.url.rstrip("/") if config.url else None
        self._origins = {_origin(url) for url in (config.url, *config.image_origins) if url}

    async def template(self, template_id: str) -> Any | None:
        """The template of this id; None if there is none."""
        return await self._get(f"/v2/nf_template/{quote(template_id, safe='')}/")

    async def capable(self, capability: str) -> list[tuple[str, Any]]:
        """The templates that have a capability, with their ids; only those with their image."""
        found = await self._get(f"/v2/nf_capability/{quote(capability, safe='')}/")
        entries = found.get("list", []) if isinstance(found, dict) else []
        return [
            (str(entry["id"]), entry["template"])
            for entry in entries
            if isinstance(entry, dict)
            and {"id", "template"} <= set(entry)
            and entry.get("image-upload-status", "CO") == "CO"
        ]

    def image_of(self, template_id: str) -> str:
        """Where the datastore has the image of a template of its own."""
        return f"{self.url}/v2/nf_image/{quote(template_id, safe='')}/"

    def is_allowed(self, url: str) -> bool:
        """Whether images may come from there."""
        return _origin(url) in self._origins

    @asynccontextmanager
    async def image(self, url: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The octets of an image.

        Raises:
            GraphRefused: it cannot be had.
        """
        if not self.is_allowed(url):
            raise GraphRefused("datastore", f"images may not come from {url[:200]!a}")
        try:
            async with _client() as http, http.stream("GET", url) as answer:
                if answer.status_code != 200:
                    raise GraphRefused("datastore", f"{url}: answered {answer.status_code}")
                yield answer.aiter_bytes()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise GraphRefused("datastore", f"{url}: {error or type(error).__name__}") from error

    async def _get(self, path: str) -> Any | None:
        if self.url is None:
            return None
        url = self.url + path
        body = bytearray()
        try:
            async with _client() as http, http.stream("GET", url) as answer:
                if answer.status_code in (404, 405):
                    return None
                if answer.status_code != 200:
                    raise GraphRefused("datastore", f"{url}: answered {answer.status_code}")
                async for chunk in answer.aiter_bytes():
                    body += chunk
                    if len(body) > MAX_BYTES:
                        raise GraphRefused("datastore", f"{url}: its answer is too large")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise GraphRefused("datastore", f"{url}: {error or type(error).__name__}") from error
        return parse(bytes(body))


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=_TIMEOUT_S, follow_redirects=False, trust_env=False)


def _origin(url: str) -> tuple[str, str | None, int | None]:
    try:
        parts = urlsplit(url)
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
        return parts.scheme, parts.hostname, port
    except ValueError:
        return "", None, None
