# SPDX-License-Identifier: Apache-2.0
"""The node's web page: files of this package, and nothing from elsewhere.

They are the same on every node and hold nothing of it, so they need no token: the page logs in and
then asks the API as any client does. What a browser may do with them is bounded by the headers: no
other place's scripts, styles, frames or requests, and no scripts but from files, so a name in a
graph that looks like HTML stays a name.
"""

import hashlib
from functools import cache
from pathlib import Path

from fastapi import APIRouter, Request, Response

from headrace.node.errors import NotFound

router = APIRouter(include_in_schema=False)

WEB = Path(__file__).parents[1] / "web"

_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".json": "application/json",
}
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


@cache
def files() -> dict[str, tuple[bytes, str, str]]:
    """Content, type and entity tag of each file of the page, by its path below `/ui/`."""
    found = {}
    examples = WEB.parent / "examples"
    for folder, prefix in ((WEB, ""), (examples, "examples/")):
        for file in folder.rglob("*"):
            if file.suffix in _TYPES:
                content = file.read_bytes()
                tag = f'"{hashlib.blake2b(content, digest_size=12).hexdigest()}"'
                name = prefix + file.relative_to(folder).as_posix()
                found[name] = (content, _TYPES[file.suffix], tag)
    return found


@router.get("/")
async def get_page(request: Request) -> Response:
    """The page."""
    return _answer(request, "index.html")


@router.get("/ui/{path:path}")
async def get_file(path: str, request: Request) -> Response:
    """A file of the page."""
    return _answer(request, path)


def _answer(request: Request, path: str) -> Response:
    if path == "examples":
        names = [name for name in files() if name.startswith("examples/")]
        lines = ",".join(f'"{name[9:-5]}"' for name in sorted(names))
        return Response(f"[{lines}]", headers=HEADERS, media_type="application/json")
    if path not in files():
        raise NotFound("web", f"the page has no file {path!r}")
    content, kind, tag = files()[path]
    headers = {**HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(content, headers=headers, media_type=kind)
