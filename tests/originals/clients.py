# SPDX-License-Identifier: Apache-2.0
"""What the original node's clients send, request by request, and what each of them insists on.

`{graph}` in a path is the id that the node gave for the last POST; `{token}` what the last login
answered. A client fails, or does something else, on any other code than those of `codes`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.originals.samples import SAMPLES, Json

_JSON = {"Content-Type": "application/json"}
_BY_NAME = {sample.name: sample.graph for sample in SAMPLES}


@dataclass(frozen=True)
class Request:
    """One request. `gives`: what the client reads in the answer, by the path of keys to it."""

    method: str
    path: str
    codes: tuple[int, ...]
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    gives: dict[str, Any] = field(default_factory=dict)
    raw: bytes | None = None


def _with_priority(graph: Json) -> Json:
    """The orchestrator fills in a priority, and leaves `domain` and empty lists away."""
    inner = graph["forwarding-graph"]
    rules = [{"priority": 20000, **rule} for rule in inner["big-switch"]["flow-rules"]]
    kept = {key: value for key, value in inner.items() if value not in ([], None) and key != "id"}
    return {"forwarding-graph": {**kept, "big-switch": {"flow-rules": rules}}}


CREDENTIALS = {"username": "admin", "password": "qwerty"}
_TOKEN = {"X-Auth-Token": "{token}"}
_FROG = {**_JSON, "cache-control": "no-cache", **_TOKEN}
_ACCEPT = {**_JSON, "Accept": "application/json"}

LOGIN = Request("POST", "/login", (200,), CREDENTIALS, _ACCEPT)
NO_LOGIN = Request("POST", "/login", (501,), CREDENTIALS, _ACCEPT)

FROG = [
    Request(
        "POST",
        "/NF-FG/",
        (200, 201, 202),
        _with_priority(_BY_NAME["passthrough_with_vnf"]),
        _FROG,
        {"nffg-uuid": str},
    ),
    Request("GET", "/NF-FG/status/{graph}", (200,), None, _FROG, {"status": "complete"}),
    Request(
        "PUT",
        "/NF-FG/{graph}",
        (200, 201, 202, 204),
        _with_priority(_BY_NAME["put_graph"]),
        _FROG,
    ),
    Request("GET", "/NF-FG/status/{graph}", (200,), None, _FROG, {"status": "complete"}),
    Request("DELETE", "/NF-FG/{graph}", (200, 202, 204), None, _FROG),
    Request("GET", "/NF-FG/status/{graph}", (404,), None, _FROG),
]
"""frog4-orchestrator, ca_rest.py: what it does with one graph of a user's."""

FROG_STALE = [
    Request("GET", "/NF-FG/status/x", (401,), None, {**_FROG, "X-Auth-Token": "0" * 32}),
    LOGIN,
    Request("GET", "/NF-FG/status/x", (404,), None, _FROG),
]
"""frog4-orchestrator with a token of before the node's restart: it logs in again on 401 alone."""

GUI = [
    Request("GET", "/NF-FG/", (200,), None, _TOKEN, {"NF-FG": list}),
    Request(
        "POST",
        "/NF-FG/",
        (201,),
        _with_priority(_BY_NAME["README_LAUNCH_VNF"]),
        {**_JSON, **_TOKEN},
        {"nffg-uuid": str},
    ),
    Request("GET", "/NF-FG/{graph}", (200,), None, _TOKEN, {"forwarding-graph": dict}),
    Request(
        "PUT",
        "/NF-FG/{graph}",
        (202,),
        _with_priority(_BY_NAME["passthrough_with_vnf"]),
        {**_JSON, **_TOKEN},
    ),
    Request("DELETE", "/NF-FG/{graph}", (204,), None, _TOKEN),
    Request("GET", "/v2/nf_template/?format=json", (200,), None, _TOKEN, {"list": list}),
    Request(
        "PUT",
        "/v2/nf_template/?format=json",
        (200,),
        {
            "template": {
                "name": "theirs",
                "functional-capability": "theirs",
                "vnf-type": "docker",
                "uri-image": "",
                "uri-image-type": "local-file",
                "memory-size": 64,
                "expandable": False,
                "CPUrequirements": {"platformType": "x86", "socket": [{"coreNumbers": 1}]},
                "ports": [{"position": "0-N", "label": "inout", "min": "1", "name": "eth"}],
            },
            "image-upload-status": "IP",
        },
        {**_JSON, **_TOKEN},
    ),
    Request("GET", "/v2/nf_capability/theirs/?format=json", (200,), None, _TOKEN, {"list": list}),
]
"""frog4-gui: it insists on 201, 202 and 204."""

GUI_USERS = [
    Request("PUT", "/groups/lab", (201,), None, _TOKEN),
    Request("GET", "/groups", (200,), None, _TOKEN, {"groups": list}),
    Request(
        "POST",
        "/users/ann",
        (202,),
        {"password": "a long one", "group": "lab"},
        {**_JSON, **_TOKEN},
    ),
    Request("GET", "/users", (200,), None, _TOKEN, {"users": list}),
    Request("GET", "/users/ann", (200,), None, _TOKEN, {"username": "ann", "group": "lab"}),
    Request("DELETE", "/users/ann", (204,), None, _TOKEN),
    Request("DELETE", "/groups/lab", (202,), None, _TOKEN),
]
"""frog4-gui's page of users, with the codes of the original node (the page expects others)."""

_VIRTUALIZER = {"Content-Type": "application/json"}

VIRTUALIZER = [
    Request("GET", "/nfs/digest", (200,), gives={"network-functions": list}),
    Request("GET", "/nfs/pass", (200,), gives={"name": "pass", "implementations": list}),
    Request("GET", "/nfs/none", (405,)),
    Request(
        "PUT",
        "/NF-FG/1",
        (201,),
        {
            "forwarding-graph": {
                "id": "1",
                "name": "NF-FG",
                "VNFs": [],
                "end-points": [
                    {"id": "1", "type": "interface", "interface": {"if-name": "p0"}},
                    {"id": "2", "type": "interface", "interface": {"if-name": "p1"}},
                ],
                "big-switch": {
                    "flow-rules": [
                        {
                            "id": "1",
                            "priority": 100,
                            "match": {"port_in": "endpoint:1", "vlan_id": "20"},
                            "actions": [{"pop_vlan": True}, {"output_to_port": "endpoint:2"}],
                        }
                    ]
                },
            }
        },
        _VIRTUALIZER,
    ),
    Request("PUT", "/NF-FG/1", (201,), _BY_NAME["passthrough_with_vnf"], _VIRTUALIZER),
    # It expects 201, too, and reports an error on the original node's 204: its own fault.
    Request("DELETE", "/NF-FG/1", (204,)),
]
"""The virtualizer: it reads the name resolver at start; every PUT, also of an update, gives 201."""

_OPENBATON = "k3v9x1qa"

OPENBATON = [
    Request("GET", "/conf", (200,), None, _TOKEN, {"datastoreEndpoint": str}),
    Request("GET", f"/NF-FG/{_OPENBATON}", (404,), None, _TOKEN),
    Request("PUT", f"/NF-FG/{_OPENBATON}", (201,), _BY_NAME["operatorGraph"], {**_JSON, **_TOKEN}),
    Request("GET", f"/NF-FG/{_OPENBATON}", (200,), None, _TOKEN, {"forwarding-graph": dict}),
    Request(
        "PUT", f"/NF-FG/{_OPENBATON}", (201, 202), _BY_NAME["managementGraph"], {**_JSON, **_TOKEN}
    ),
    Request("GET", "/v2/nf_template/", (200,), None, _TOKEN, {"list": list}),
    Request("DELETE", f"/NF-FG/{_OPENBATON}", (204,), None, _TOKEN),
]
"""unvim4openbaton: it logs in before every request; 404 is for it `there is none yet`."""


def logging_in(requests: list[Request], login: Request) -> list[Request]:
    """The requests, each after a login."""
    return [one for request in requests for one in (login, request)]
