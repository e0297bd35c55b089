# SPDX-License-Identifier: Apache-2.0
"""The API of the faulty node: what the 26 tests ask of a node, in the Headrace dialect."""

import asyncio
import copy
import json
import os
import platform
import shutil
import socket
import time
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from tests.conformance_node.forwarding import Deployed, Graph

PORTS = ("p0", "p1", "p2")
LSI0 = "lsi-0"
MEMORY_MB, EACH_MB = 640, 64
_KINDS = {"pass": "dpdk", "cpu": "dpdk", "memory": "dpdk", "pass-container": "docker",
          "bridge": "native"}  # fmt: skip
_ENGINES = {"dpdk": "process", "docker": "container", "native": "native"}
_END_POINTS = ["interface", "vlan"]


class FaultyNode:
    """A node on this machine; `fault` is the number of the one that it has, or None.

    `upper` is the host and port that its description is sent to.
    """

    def __init__(
        self,
        fault: int | None = None,
        upper: tuple[str, int] | None = None,
        policy: str = "first-fit",
    ) -> None:
        self.fault, self.upper, self.policy = fault, upper, policy
        self.graphs: dict[str, Deployed] = {}
        self.left: list[str] = []
        self.applied = 0.0
        self._number = self._given = 0
        self._asking = 0
        self._written: dict[str, dict[str, Any]] = {}
        self._images: dict[str, bytes] = {}
        self._telling: asyncio.Task[None] | None = None
        graph = "/NF-FG/{name}"
        self.app = Starlette(
            routes=[
                Route("/node", self.information),
                Route("/node/resources", self.resources),
                Route("/node/ports", self.ports),
                Route("/node/switch/ports", self.switch_ports),
                Route("/node/vnfs/{graph}/{vnf}/cycles", self.cycles),
                Route("/node/vnfs/{graph}/{vnf}/counters", self.counters),
                Route("/domain-information", self.domain_information),
                Route("/NF-FG", self.list_graphs, methods=["GET"]),
                Route("/NF-FG", self.post_graph, methods=["POST"]),
                Route("/NF-FG/status/{name}", self.status),
                Route("/NF-FG/{name}/statistics", self.statistics),
                Route(graph, self.get_graph, methods=["GET"]),
                Route(graph, self.put_graph, methods=["PUT"]),
                Route(graph, self.delete_graph, methods=["DELETE"]),
                Route("/v2/nf_template", self.list_templates, methods=["GET"]),
                Route("/v2/nf_template", self.put_template, methods=["PUT"]),
                Route("/v2/nf_template/{name}", self.template, methods=["GET", "DELETE"]),
                Route("/v2/nf_capability/{name}", self.by_capability),
                Route("/v2/nf_image/{name}", self.image, methods=["GET", "PUT", "DELETE"]),
            ]
        )

    async def settle(self) -> None:
        """Waits until everything is told to the layer above."""
        if self._telling is not None:
            await self._telling

    # Resources

    async def information(self, _: Request) -> Response:
        engines = {engine: ["memif"] for engine in _ENGINES.values()}
        points = [*_END_POINTS, "internal"] if self.fault == 17 else _END_POINTS
        return JSONResponse(
            {
                "name": "faulty", "version": "1",
                "switch": {"name": "simulated", "version": "simulated 1, OpenFlow 1.3",
                           "lsi0": LSI0, "port_kinds": ["memif"], "end_points": points},
                "engines": engines, "templates": list(_KINDS),
                "placement": {"policy": self.policy, "policies": ["first-fit", "optimized"]},
            }
        )  # fmt: skip

    def _used_mb(self) -> int:
        each_mb = EACH_MB
        if self.policy == "optimized":
            each_mb = EACH_MB * 2 if self.fault == 15 else EACH_MB // 2
        return each_mb * sum(len(each.inner["VNFs"]) for each in self.graphs.values())

    async def resources(self, _: Request) -> Response:
        memory = _meminfo()
        disk = shutil.disk_usage("/")
        cpus = os.cpu_count() or 1
        return JSONResponse(
            {
                "cores": self._cores(),
                "memory_mb": {"total": MEMORY_MB, "used": self._used_mb(),
                              "free": MEMORY_MB - self._used_mb()},
                "ports": [{"name": port, "used_by": []} for port in PORTS],
                "machine": {
                    "cpu": {"number": 2 * cpus if self.fault == 1 else cpus,
                            "model": _model(), "architecture": platform.machine()},
                    "memory": {"total": memory["MemTotal"], "available": memory["MemAvailable"]},
                    "disks": [{"path": "/", "total": disk.total,
                               "free": disk.total if self.fault == 2 else disk.free}],
                    "nics": [{"name": name} for _, name in socket.if_nameindex()],
                    "accelerators": [],
                },
            }
        )  # fmt: skip

    def _cores(self) -> list[dict[str, Any]]:
        polling = 1 if self._used_mb() else 0
        return [{"core": 0, "roles": ["control", "vnf"], "polling": polling}]

    def _description(self) -> dict[str, Any]:
        memory = {"size": MEMORY_MB, "free": MEMORY_MB - self._used_mb()}
        if self.fault == 11:
            memory["size"] *= 2
        free = 0 if self._used_mb() else 1
        names = [{"index": n, "name": port, "config": {"enabled": True}}
                 for n, port in enumerate(PORTS)]  # fmt: skip
        points = [*_END_POINTS, "internal"] if self.fault == 17 else _END_POINTS
        vnfs = [{"type": name, "name": name, "ready": True, "template": name}
                for name in [*_KINDS, *self._written]]  # fmt: skip
        return {
            "netgroup-domain:informations": {
                "id": "faulty", "name": "faulty", "type": "universal_node",
                "management-address": "127.0.0.1:1",
                "hardware-informations": {
                    "resources": {"cpu": {"number": 1, "free": free}, "memory": memory},
                    "interfaces": {"interface": names},
                },
                "capabilities": {
                    "infrastructural-capabilities": {
                        "infrastructural-capability": [{"type": p, "name": p} for p in points]},
                    "functional-capabilities": {"functional-capability": vnfs},
                },
            }
        }  # fmt: skip

    async def domain_information(self, _: Request) -> Response:
        return JSONResponse(self._description())

    def tell(self) -> None:
        """Sends the description to the layer above."""
        if self.upper is not None and (self._telling is None or self._telling.done()):
            self._telling = asyncio.create_task(self._send())

    async def _send(self) -> None:
        """Changes in quick succession go as one."""
        assert self.upper is not None
        await asyncio.sleep(0.002)
        body = json.dumps(self._description()).encode()
        reader, writer = await asyncio.open_connection(*self.upper)
        head = f"POST / HTTP/1.1\r\nHost: upper\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        await reader.read()
        writer.close()

    async def ports(self, _: Request) -> Response:
        return JSONResponse(
            [{"name": port, "kind": "memif", "ofport": number,
              "attach": {"devargs": f"net_memif,id={port}"}}
             for number, port in enumerate(PORTS, 1)]
        )  # fmt: skip

    async def switch_ports(self, _: Request) -> Response:
        rows: list[dict[str, Any]] = [{"lsi": LSI0, "port": f"n{number}", "ofport": number}
                for number, _ in enumerate(PORTS, 1)]  # fmt: skip
        for deployed in self.graphs.values():
            rows += [{"lsi": deployed.lsi, "port": "link"}]
            rows += [
                {"lsi": deployed.lsi, "port": f"{vnf['id']}:{port['id']}"}
                for vnf in deployed.inner["VNFs"]
                for port in vnf["ports"]
            ]
        rows += [{"lsi": lsi, "port": "link"} for lsi in self.left]
        return JSONResponse(rows)

    async def cycles(self, request: Request) -> Response:
        deployed = self.graphs[request.path_params["graph"]]
        vnf = request.path_params["vnf"]
        return JSONResponse({"busy_cycles": deployed.busy[vnf], "packets": deployed.seen[vnf]})

    async def counters(self, request: Request) -> Response:
        deployed = self.graphs[request.path_params["graph"]]
        seen = deployed.seen[request.path_params["vnf"]]
        return JSONResponse({"ports": {"0": {"rx_packets": seen}, "1": {"rx_packets": 0}}})

    # Graphs

    def _refusal(self, document: Any, modified: bool = False) -> str:
        """What is wrong with a document; empty if nothing is."""
        inner = document.get("forwarding-graph")
        if not isinstance(inner, dict):
            return "no forwarding-graph"
        places = set()
        for point in inner["end-points"]:
            kind = point["type"]
            if kind not in _END_POINTS:
                return f"no end-points of type {kind}"
            if point[kind]["if-name"] not in PORTS:
                return f"no port {point[kind]['if-name']}"
            places.add(f"endpoint:{point['id']}")
        for vnf in inner["VNFs"]:
            places |= {f"vnf:{vnf['id']}:{port['id']}" for port in vnf["ports"]}
        for rule in inner["big-switch"]["flow-rules"]:
            used = {action["output_to_port"] for action in rule["actions"]}
            if not used <= places and not (modified and self.fault == 4):
                return f"rule {rule['id']} leads nowhere"
        return ""

    async def _deploy(self, name: str, document: Graph) -> Response | None:
        refusal = self._refusal(document)
        if refusal:
            return JSONResponse({"module": "graph", "message": refusal}, 400)
        self._asking += 1
        try:
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self._number += 1
            forgotten = self.fault == 26 and self._asking >= 5
            rules = [] if forgotten else copy.deepcopy(
                document["forwarding-graph"]["big-switch"]["flow-rules"])  # fmt: skip
            self.graphs[name] = Deployed(document, rules, f"lsi-{self._number}")
        finally:
            self._asking -= 1
        self.applied = time.monotonic()
        self.tell()
        return None

    async def post_graph(self, request: Request) -> Response:
        self._given += 1
        name = f"given{self._given}"
        refused = await self._deploy(name, await request.json())
        return refused or JSONResponse(
            {"nffg-uuid": name}, 201, {"Location": f"http://localhost/NF-FG/{name}"}
        )

    async def put_graph(self, request: Request) -> Response:
        name, document = request.path_params["name"], await request.json()
        if name not in self.graphs:
            told = f"{name}x" if self.fault == 3 else name
            headers = {"Location": f"http://localhost/NF-FG/{told}"}
            refused = await self._deploy(name, document)
            return refused or Response(status_code=201, headers=headers)
        refusal = self._refusal(document, modified=True)
        if refusal:
            return JSONResponse({"module": "graph", "message": refusal}, 400)
        deployed = self.graphs[name]
        rules = copy.deepcopy(document["forwarding-graph"]["big-switch"]["flow-rules"])
        if self.fault == 14 and document["forwarding-graph"]["VNFs"]:
            ids = {rule["id"] for rule in rules}
            old = [rule for rule in deployed.rules if rule["id"] in ids]
            points = {point["id"]: point for point in document["forwarding-graph"]["end-points"]}
            points |= {point["id"]: point for point in deployed.inner["end-points"]}
            document = copy.deepcopy(document)
            if len(document["forwarding-graph"]["VNFs"]) == len(deployed.inner["VNFs"]):
                document["forwarding-graph"]["end-points"] = list(points.values())
                rules = old
        if self.fault == 25 and len(rules) > 60:
            rules = [rule for number, rule in enumerate(rules, 1) if number % 50]
        deployed.document, deployed.rules = document, rules
        self.applied = time.monotonic()
        self.tell()
        return Response(status_code=202)

    async def delete_graph(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in self.graphs:
            return Response(status_code=204 if self.fault == 5 else 404)
        gone = self.graphs.pop(name)
        if self.fault == 20:
            self.left.append(gone.lsi)
        if self.fault != 12:
            self.tell()
        return Response(status_code=204)

    async def list_graphs(self, _: Request) -> Response:
        names = list(self.graphs)
        if self.fault == 6:
            names = names[:-1]
        return JSONResponse(
            {"NF-FG": [{**self.graphs[name].document, "nffg-uuid": name} for name in names]}
        )

    async def get_graph(self, request: Request) -> Response:
        found = self.graphs.get(request.path_params["name"])
        if found is None:
            return Response(status_code=404)
        document = copy.deepcopy(found.document)
        if self.fault == 7:
            for rule in document["forwarding-graph"]["big-switch"]["flow-rules"]:
                del rule["priority"]
        return JSONResponse(document)

    async def status(self, request: Request) -> Response:
        found = self.graphs.get(request.path_params["name"])
        if found is None:
            return Response(status_code=404)
        vnfs = []
        for vnf in found.inner["VNFs"]:
            engine = _ENGINES[_KINDS.get(vnf["vnf_template"], "dpdk")]
            if self.fault == 16 and engine == "container":
                engine = "process"
            for number in range(1, max(1, found.replicas[vnf["id"]]) + 1):
                name = vnf["id"] if number == 1 else f"{vnf['id']}~{number}"
                vnfs.append({"id": name, "template": vnf["vnf_template"], "engine": engine,
                             "running": True, "cores": [0]})  # fmt: skip
        return JSONResponse({"status": "complete", "percentage_completed": 100, "vnfs": vnfs})

    async def statistics(self, request: Request) -> Response:
        found = self.graphs[request.path_params["name"]]
        wrong = 1 if self.fault == 19 else 0

        def shown(names: list[str]) -> dict[str, int]:
            packets = sum(found.counted[each] for each in names)
            return {"packets": packets - (wrong if packets > 20 else 0),
                    "bytes": sum(found.octets[each] for each in names)}  # fmt: skip

        rules = found.rules
        points = []
        for point in found.inner["end-points"]:
            place = f"endpoint:{point['id']}"
            points.append(
                {
                    "id": point["id"],
                    "received": shown([r["id"] for r in rules if r["match"]["port_in"] == place]),
                    "sent": shown([r["id"] for r in rules
                                   if {"output_to_port": place} in r["actions"]]),
                }
            )  # fmt: skip
        return JSONResponse(
            {"rules": [{"id": r["id"], **shown([r["id"]])} for r in rules], "end-points": points}
        )

    # Templates and images

    def _templates(self) -> dict[str, dict[str, Any]]:
        own = {
            name: {"name": name, "functional-capability": name.partition("-")[0], "vnf-type": kind,
                   "ports": [{"position": "0-1", "label": "port"}]}
            for name, kind in _KINDS.items()
        }  # fmt: skip
        return {**own, **self._written}

    @staticmethod
    def _listed(found: dict[str, dict[str, Any]]) -> Response:
        rows = [{"id": name, "template": each, "image-upload-status": "CO"}
                for name, each in found.items()]  # fmt: skip
        return JSONResponse({"list": rows}, 200 if rows else 404)

    async def list_templates(self, _: Request) -> Response:
        return self._listed(self._templates())

    async def by_capability(self, request: Request) -> Response:
        wanted = request.path_params["name"]
        found = {name: each for name, each in self._templates().items()
                 if each["functional-capability"] == wanted}  # fmt: skip
        return self._listed(dict(list(found.items())[:1]) if self.fault == 8 else found)

    async def put_template(self, request: Request) -> Response:
        self._number += 1
        name = f"T{self._number:05d}"
        self._written[name] = await request.json()
        return PlainTextResponse(name)

    async def template(self, request: Request) -> Response:
        name = request.path_params["name"]
        found = self._templates().get(name)
        if found is None:
            return Response(status_code=404)
        if request.method == "DELETE":
            del self._written[name]
            return Response()
        if self.fault == 9 and "memory-size" in found:
            found = {**found, "memory-size": found["memory-size"] * 2}
        return JSONResponse(found)

    async def image(self, request: Request) -> Response:
        name = request.path_params["name"]
        if request.method == "PUT":
            self._images[name] = await request.body()
            return Response()
        if name not in self._images:
            return Response(status_code=404)
        if request.method == "DELETE":
            del self._images[name]
            return Response()
        content = self._images[name]
        return Response(content[:-1] if self.fault == 10 else content)


def _meminfo() -> dict[str, int]:
    rows = (line.split() for line in Path("/proc/meminfo").read_text().splitlines())
    return {row[0].rstrip(":"): int(row[1]) << 10 for row in rows}


def _model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return ""
