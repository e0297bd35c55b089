# SPDX-License-Identifier: Apache-2.0
"""/docs: the API's own description in a browser, by Swagger UI, from files of this machine.

The files are those of the package fastapi-offline. As those of the web page (`rest/web.py`) they
hold nothing of the node, so they need no token; the description that the page asks for does, and
the page sends the token of the tab in which somebody has logged in on the node's page.
"""

from functools import cache
from pathlib import Path

import fastapi_offline
from fastapi import APIRouter, Response

from headrace.node.errors import NotFound
from headrace.node.rest.web import HEADERS

router = APIRouter(include_in_schema=False)

_PACKAGE = Path(fastapi_offline.__file__).parent / "static"
_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_FILES = ("swagger-ui.css", "swagger-ui-bundle.js")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>Headrace: the API</title>
<link rel="icon" href="/ui/icon.svg">
<link rel="stylesheet" href="/docs/swagger-ui.css">
</head>
<body>
<div id="api"></div>
<script src="/docs/swagger-ui-bundle.js"></script>
<script src="/docs/start.js"></script>
</body>
</html>
"""
_START = """SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#api",
  deepLinking: true,
  validatorUrl: null,
  requestInterceptor: (request) => {
    const token = sessionStorage.getItem("headrace.token");
    if (token) request.headers["X-Auth-Token"] = token;
    return request;
  },
});
"""
# Swagger UI sets styles of elements, and has its pictures in its style sheet.
_HEADERS = {
    **HEADERS,
    "Content-Security-Policy": HEADERS["Content-Security-Policy"]
    .replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
    .replace("img-src 'self'", "img-src 'self' data:"),
}


@cache
def _content(name: str) -> bytes:
    return (_PACKAGE / name).read_bytes()


@router.get("/docs")
async def get_page() -> Response:
    """The page."""
    return Response(_PAGE, headers=_HEADERS, media_type="text/html; charset=utf-8")


@router.get("/docs/{name}")
async def get_file(name: str) -> Response:
    """A file of the page."""
    if name == "start.js":
        return Response(_START, headers=_HEADERS, media_type=_TYPES[".js"])
    if name not in _FILES:
        raise NotFound("web", f"the page of the API has no file {name!r}")
    return Response(_content(name), headers=_HEADERS, media_type=_TYPES[Path(name).suffix])
