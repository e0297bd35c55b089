# SPDX-License-Identifier: Apache-2.0
"""The nodes' REST APIs: TLS with the certificates of a Secret, a token or a login of the same."""

import json
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx

from headrace.cluster.core.actions import (
    PART_PREFIX,
    Action,
    Delete,
    Look,
    Outcome,
    Put,
    Result,
    part_id,
)
from headrace.cluster.cutting.cut import digest
from headrace.cluster.resources import NodeSpec

Secrets = Callable[[str, str], Awaitable[Mapping[str, bytes]]]
"""The data of a Secret, by namespace and name."""

NOT_OF_THE_REQUEST = (401, 408, 409, 429)
"""Refusals of who asks, when and how often: the same may be taken later."""
PROBE_S, CONNECT_S, CALL_S = 2.0, 3.0, 120.0
SECRET_S = 300.0
"""After so long a Secret is read again, in case that it was changed."""


class NoAccess(Exception):
    """A node can't be spoken to; the message says why."""


@dataclass
class _Session:
    client: httpx.AsyncClient
    spec: NodeSpec
    token: str | None
    user: tuple[str, str] | None
    read_at: float


class NodesApi:
    """All nodes; one connection pool for each."""

    def __init__(self, secrets: Secrets, transport: httpx.AsyncBaseTransport | None = None) -> None:
        """Credentials come from `secrets`; tests give a transport of their own."""
        self._secrets, self._transport = secrets, transport
        self._sessions: dict[str, _Session] = {}

    async def close(self) -> None:
        """Ends all connections."""
        for session in self._sessions.values():
            await session.client.aclose()
        self._sessions.clear()

    async def forget(self, name: str) -> None:
        """Ends the connections to a node."""
        session = self._sessions.pop(name, None)
        if session is not None:
            await session.client.aclose()

    async def ready(self, name: str, spec: NodeSpec) -> tuple[bool, str]:
        """Whether a node answers that it is ready, and else what it says."""
        try:
            answer = await self._request(name, spec, "GET", "/ready", timeout_s=PROBE_S)
        except (httpx.HTTPError, NoAccess, OSError) as error:
            return False, _told(error)
        return answer.status_code == 200, _message(answer)

    async def call(self, action: Action, spec: NodeSpec) -> Outcome:
        """Carries out an action; never raises for what a node or the network does."""
        try:
            if isinstance(action, Put):
                path = f"/NF-FG/{quote(part_id(action.uid), safe='')}"
                answer = await self._request(
                    action.node, spec, "PUT", path, body=action.part.document
                )
            elif isinstance(action, Delete):
                path = f"/NF-FG/{quote(part_id(action.uid), safe='')}"
                answer = await self._request(action.node, spec, "DELETE", path)
                if answer.status_code == 404:
                    return Outcome(Result.DONE)
            elif isinstance(action, Look):
                answer = await self._request(action.node, spec, "GET", "/node/graphs")
                if answer.is_success:
                    return Outcome(Result.DONE, faults=_faults(answer.json()))
            else:
                answer = await self._request(action.node, spec, "GET", "/NF-FG")
                if answer.is_success:
                    return Outcome(Result.DONE, stock=_stock(answer.json()))
        except (httpx.HTTPError, NoAccess, OSError, ValueError, KeyError, TypeError) as error:
            return Outcome(Result.FAILED, _told(error))
        if answer.is_success:
            return Outcome(Result.DONE)
        refused = 400 <= answer.status_code < 500 and answer.status_code not in NOT_OF_THE_REQUEST
        return Outcome(Result.REFUSED if refused else Result.FAILED, _message(answer))

    async def _request(
        self,
        name: str,
        spec: NodeSpec,
        method: str,
        path: str,
        *,
        body: Any = None,
        timeout_s: float = CALL_S,
    ) -> httpx.Response:
        for again in (True, False):
            session = await self._session(name, spec)
            headers = {"X-Auth-Token": session.token} if session.token else {}
            answer = await session.client.request(
                method,
                path,
                json=body,
                headers=headers,
                timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S)),
            )
            if answer.status_code == 401 and again:
                await self.forget(name)  # the token may be a new one in the Secret
                continue
            break
        return answer

    async def _session(self, name: str, spec: NodeSpec) -> _Session:
        found = self._sessions.get(name)
        now = time.monotonic()
        if found is not None and found.spec == spec and now - found.read_at < SECRET_S:
            return found
        data: Mapping[str, bytes] = {}
        if spec.token_secret is not None:
            data = await self._secrets(spec.token_secret.namespace, spec.token_secret.name)
        context = ssl.create_default_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if "ca.crt" in data:
            context = ssl.create_default_context(cadata=data["ca.crt"].decode())
            context.minimum_version = ssl.TLSVersion.TLSv1_2
        if not spec.address.startswith("https://"):
            raise NoAccess(f"{spec.address}: only https://HOST:PORT can be an address")
        client = httpx.AsyncClient(base_url=spec.address, verify=context, transport=self._transport)
        token = data["token"].decode().strip() if "token" in data else None
        user = None
        if token is None and "username" in data and "password" in data:
            user = data["username"].decode(), data["password"].decode()
            token = await self._log_in(client, user)
        await self.forget(name)
        session = _Session(client, spec, token, user, now)
        self._sessions[name] = session
        return session

    @staticmethod
    async def _log_in(client: httpx.AsyncClient, user: tuple[str, str]) -> str:
        body = {"username": user[0], "password": user[1]}
        answer = await client.post("/login", json=body, timeout=CONNECT_S)
        if not answer.is_success:
            raise NoAccess(f"login as {user[0]}: {_message(answer)}")
        return answer.text.strip()


def _stock(answer: Mapping[str, Any]) -> dict[str, str]:
    """Digests of the parts among a node's graphs, by UID of the whole."""
    found = {}
    for graph in answer["NF-FG"]:
        name = str(graph["nffg-uuid"])
        if name.startswith(PART_PREFIX):
            part = {"forwarding-graph": graph["forwarding-graph"]}
            found[name.removeprefix(PART_PREFIX)] = digest(part)
    return found


def _faults(listed: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Of each part among a node's graphs, by UID of the whole, what does not work, or ""."""
    found = {}
    for graph in listed:
        name = str(graph["id"])
        if name.startswith(PART_PREFIX):
            fault = str(graph["message"] or "error") if graph["status"] == "error" else ""
            found[name.removeprefix(PART_PREFIX)] = fault
    return found


def _message(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["message"])
    except (json.JSONDecodeError, KeyError, TypeError, ValueError):
        return f"{answer.status_code} {answer.text[:200]}".strip()


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__
