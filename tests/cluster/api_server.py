# SPDX-License-Identifier: Apache-2.0
"""A small double of an API server, in process: discovery, lists, watches, patches, finalizers.

It knows no schemas, no rights and no history; `make test-cluster` has a real one.
"""

import asyncio
import copy
import itertools
import json
from typing import Any

import jsonpatch
from aiohttp import web

GROUP, VERSION = "headrace.dev", "v1alpha1"
EXTENSIONS = "apiextensions.k8s.io"
KINDS = {"servicegraphs": ("ServiceGraph", True), "headracenodes": ("HeadraceNode", False)}


class ApiServer:
    """Objects by (plural, namespace, name)."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}
        self.secrets: dict[tuple[str, str], dict[str, str]] = {}
        self.leases: dict[tuple[str, str], dict[str, Any]] = {}
        self.events: list[dict[str, Any]] = []
        self.requests: list[tuple[str, str]] = []
        self._numbers = itertools.count(1)
        self._watchers: list[tuple[str, asyncio.Queue[dict[str, Any]]]] = []
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self) -> None:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self._answer)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        address = self._runner.addresses[0]
        self.url = f"http://127.0.0.1:{address[1]}"

    async def stop(self) -> None:
        assert self._runner is not None
        for _, queue in self._watchers:
            queue.put_nowait({})
        await self._runner.cleanup()

    def kubeconfig(self) -> dict[str, Any]:
        """kubectl's configuration for it."""
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [{"name": "test", "cluster": {"server": self.url}}],
            "users": [{"name": "test", "user": {"token": "unused"}}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "test"}}],
        }

    # What a client with kubectl would do.

    def apply(self, plural: str, body: dict[str, Any]) -> None:
        """Creates an object, or changes the specification of one."""
        about = body["metadata"]
        key = plural, about.get("namespace", ""), about["name"]
        found = self.objects.get(key)
        if found is None:
            found = copy.deepcopy(body)
            self.objects[key] = found
            self._changed(key, "ADDED")
        elif found["spec"] != body["spec"]:
            found["spec"] = copy.deepcopy(body["spec"])
            found["metadata"]["generation"] += 1
            self._changed(key, "MODIFIED")

    def delete(self, plural: str, namespace: str, name: str) -> None:
        """Deletes an object; finalizers hold it."""
        key = plural, namespace, name
        found = self.objects[key]
        found["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        self._changed(key, "MODIFIED")
        self._collect(key)

    def get(self, plural: str, namespace: str, name: str) -> dict[str, Any] | None:
        return self.objects.get((plural, namespace, name))

    # Inside.

    def _changed(self, key: tuple[str, str, str], kind: str) -> None:
        found = self.objects[key]
        found["metadata"]["resourceVersion"] = str(next(self._numbers))
        for plural, queue in self._watchers:
            if plural == key[0]:
                queue.put_nowait({"type": kind, "object": copy.deepcopy(found)})

    def _collect(self, key: tuple[str, str, str]) -> None:
        about = self.objects[key]["metadata"]
        if "deletionTimestamp" in about and not about.get("finalizers"):
            self._changed(key, "DELETED")
            del self.objects[key]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.path.strip("/").split("/")
        self.requests.append((request.method, request.path))
        fixed = _discovery(path)
        if fixed is not None:
            return web.json_response(fixed)
        if path[-1] == "events":
            self.events.append(await request.json())
            return web.json_response(self.events[-1], status=201)
        if path[:2] == ["api", "v1"] and len(path) == 6 and path[4] == "secrets":
            data = self.secrets.get((path[3], path[5]))
            if data is None:
                return web.json_response({"code": 404}, status=404)
            secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": path[5]}}
            return web.json_response({**secret, "data": data})
        if path[:3] == ["apis", "coordination.k8s.io", "v1"]:
            return await self._lease(request, path[4], path[6] if len(path) > 6 else "")
        if path[-1] in ("namespaces", "customresourcedefinitions", "pods"):
            return await self._list(request, path[-1])
        if path[:3] != ["apis", GROUP, VERSION]:
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        rest = path[3:]
        namespace = ""
        if rest[0] == "namespaces":
            namespace, rest = rest[1], rest[2:]
        if len(rest) == 1:
            return await self._list(request, rest[0])
        return await self._one(request, (rest[0], namespace, rest[1]), rest[2:])

    async def _lease(self, request: web.Request, namespace: str, name: str) -> web.Response:
        """Leases: to make, to read, and to replace if the version is the one that is there."""
        body = await request.json() if request.method in ("POST", "PUT") else {}
        key = namespace, name or body["metadata"]["name"]
        found = self.leases.get(key)
        if request.method == "POST":
            if found is not None:
                return web.json_response({"code": 409}, status=409)
            body["metadata"]["uid"] = f"uid-{key[1]}"
        elif found is None:
            return web.json_response({"code": 404}, status=404)
        elif request.method == "PUT":
            about = found["metadata"]
            if any(body["metadata"][one] != about[one] for one in ("uid", "resourceVersion")):
                return web.json_response({"code": 409}, status=409)
        else:
            return web.json_response(found)
        body["metadata"]["resourceVersion"] = str(next(self._numbers))
        self.leases[key] = body
        return web.json_response(body, status=201 if request.method == "POST" else 200)

    async def _list(self, request: web.Request, plural: str) -> web.StreamResponse:
        if request.query.get("watch") not in ("true", "True", "1"):
            items = [one for key, one in self.objects.items() if key[0] == plural]
            about = {"resourceVersion": str(next(self._numbers))}
            kind = f"{KINDS[plural][0] if plural in KINDS else plural}List"
            listed = {"apiVersion": f"{GROUP}/{VERSION}", "kind": kind, "items": items}
            return web.json_response({**listed, "metadata": about})
        answer = web.StreamResponse()
        await answer.prepare(request)
        queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        since = int(request.query.get("resourceVersion") or 0)
        for key, one in self.objects.items():
            if key[0] == plural and int(one["metadata"]["resourceVersion"]) > since:
                queue.put_nowait({"type": "MODIFIED", "object": copy.deepcopy(one)})
        self._watchers.append((plural, queue))
        try:
            while event := await queue.get():
                await answer.write(json.dumps(event).encode() + b"\n")
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self._watchers = [one for one in self._watchers if one[1] is not queue]
        return answer

    async def _one(
        self, request: web.Request, key: tuple[str, str, str], below: list[str]
    ) -> web.Response:
        found = self.objects.get(key)
        if found is None:
            return web.json_response({"kind": "Status", "code": 404}, status=404)
        if request.method == "PATCH":
            patch = json.loads(await request.text())
            before = json.dumps(found, sort_keys=True)
            after = copy.deepcopy(found)
            if "json-patch" in request.headers["Content-Type"]:
                try:
                    after = jsonpatch.apply_patch(after, patch)
                except jsonpatch.JsonPatchException as error:
                    return web.json_response({"code": 422, "message": str(error)}, status=422)
            elif "merge-patch" in request.headers["Content-Type"]:
                _merge(after, patch)
            else:
                return web.json_response({"code": 415}, status=415)
            # The status is a subresource: each path changes its own part alone.
            if below == ["status"]:
                found["status"] = after.get("status", {})
            else:
                found["metadata"], found["spec"] = after["metadata"], after["spec"]
            if json.dumps(found, sort_keys=True) != before:
                self._changed(key, "MODIFIED")
            told = copy.deepcopy(found)
            self._collect(key)
            return web.json_response(told)
        return web.json_response(found)


def _merge(target: dict[str, Any], patch: dict[str, Any]) -> None:
    """RFC 7396."""
    for name, value in patch.items():
        if value is None:
            target.pop(name, None)
        elif isinstance(value, dict):
            if not isinstance(target.get(name), dict):
                target[name] = {}
            _merge(target[name], value)
        else:
            target[name] = value


def _discovery(path: list[str]) -> dict[str, Any] | None:
    if path == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    if path == ["apis"]:
        groups = []
        for name, version in ((GROUP, VERSION), (EXTENSIONS, "v1")):
            one = {"groupVersion": f"{name}/{version}", "version": version}
            groups.append({"name": name, "versions": [one], "preferredVersion": one})
        return {"kind": "APIGroupList", "groups": groups}
    if path == ["api", "v1"]:
        found = [_resource("events", "Event", True), _resource("namespaces", "Namespace", False)]
        return {"kind": "APIResourceList", "groupVersion": "v1", "resources": found}
    if path == ["apis", EXTENSIONS, "v1"]:
        found = [_resource("customresourcedefinitions", "CustomResourceDefinition", False)]
        return {
            "kind": "APIResourceList",
            "groupVersion": f"{EXTENSIONS}/v1",
            "resources": found,
        }
    if path == ["apis", GROUP, VERSION]:
        found = []
        for plural, (kind, namespaced) in KINDS.items():
            one = _resource(plural, kind, namespaced)
            found += [one, {**one, "name": f"{plural}/status"}]
        return {
            "kind": "APIResourceList",
            "groupVersion": f"{GROUP}/{VERSION}",
            "resources": found,
        }
    return None


def _resource(plural: str, kind: str, namespaced: bool) -> dict[str, Any]:
    return {
        "name": plural,
        "singularName": kind.lower(),
        "kind": kind,
        "namespaced": namespaced,
        "verbs": ["get", "list", "watch", "patch", "create"],
        "shortNames": [],
        "categories": [],
    }
