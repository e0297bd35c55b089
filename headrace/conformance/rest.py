# SPDX-License-Identifier: Apache-2.0
"""Requests to a node, and its answers as they came: a conformance test looks at codes and headers.

Certificates are checked for https; the token of a login goes with every request.
"""

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

REQUEST_S = 120.0


class NoAnswer(Exception):
    """The node can't be reached, or ended the connection."""


@dataclass(frozen=True)
class Answer:
    """An answer; `content` is its JSON, or None if it has none."""

    request: str
    status: int
    headers: Mapping[str, str]
    body: bytes
    content: Any

    @property
    def good(self) -> bool:
        """Whether the code is one of success."""
        return 200 <= self.status < 300

    def __str__(self) -> str:
        text = self.body.decode(errors="replace").strip()
        return f"{self.status} {text[:600]}".strip()

    def member(self, *path: str | int) -> Any:
        """What is at a place of the JSON, or None if there is nothing."""
        found = self.content
        for step in path:
            try:
                found = found[step]
            except (KeyError, IndexError, TypeError):
                return None
        return found


class Rest:
    """A client of one address of a node.

    Args:
        url: such as `http://127.0.0.1:8080`.
        token: of a login, if the node demands one.
        cacert: certificates that may sign for the node; None are those that the machine trusts.
        transport: of httpx; tests replace it.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        cacert: Path | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self.url = url.rstrip("/")
        verify: ssl.SSLContext | bool = True
        if self.url.startswith("https"):
            verify = ssl.create_default_context(cafile=cacert)
        headers = {"X-Auth-Token": token} if token else {}
        self._http = httpx.AsyncClient(
            base_url=self.url,
            timeout=REQUEST_S,
            headers=headers,
            verify=verify,
            trust_env=False,
            transport=transport,
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __call__(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        octets: bytes | None = None,
        kind: str = "application/json",
    ) -> Answer:
        """Makes a request with a JSON body, or with `octets` of the content type `kind`.

        Raises:
            NoAnswer: there is none.
        """
        content = octets
        if content is None and body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": kind} if content is not None else {}
        try:
            answer = await self._http.request(method, path, content=content, headers=headers)
        except httpx.HTTPError as error:
            raise NoAnswer(f"{method} {path}: {error or type(error).__name__}") from error
        try:
            found = json.loads(answer.content) if answer.content else None
        except ValueError:
            found = None
        return Answer(f"{method} {path}", answer.status_code, answer.headers, answer.content, found)

    async def get(self, path: str) -> Answer:
        """The answer to GET `path`."""
        return await self("GET", path)

    @asynccontextmanager
    async def stream(self, path: str) -> AsyncIterator[httpx.Response]:
        """The answer to GET `path` while it comes."""
        async with self._http.stream("GET", path, timeout=None) as answer:
            yield answer
