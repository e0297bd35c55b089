# SPDX-License-Identifier: Apache-2.0
"""/v2: templates and their images, with the paths and words of the original datastore.

An image's octets are the body of a PUT (application/octet-stream, or a form's field `file`), or of
POSTs to `chunked_upload`, each with its Content-Range (the same, or a form's field `the_file`, as
django-chunked-upload has it), which `chunked_upload_complete` makes an image. Checksums: `md5` or
`sha256` there; the header Repr-Digest (RFC 9530) of a PUT.
"""

import base64
import binascii
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request, Response
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from headrace.node.datastore.datastore import ImageRow
from headrace.node.datastore.wire import WireTemplate
from headrace.node.errors import AccessError, GraphRefused
from headrace.node.node import Node
from headrace.node.rest.access import json_of, node_of
from headrace.node.rest.contract import (
    BINARY,
    content,
    json_body,
    octets_body,
    parameter,
    refusals,
)
from headrace.node.rest.datastore_answers import (
    CompletedImage,
    Completion,
    Conf,
    Image,
    ImageList,
    Progress,
    TemplateBody,
    TemplateList,
)
from headrace.node.rest.login import UserDep

router = APIRouter(prefix="/v2", tags=["templates"])
conf_router = APIRouter(tags=["templates"])

NodeDep = Annotated[Node, Depends(node_of)]

_RANGE = re.compile(r"bytes (\d{1,15})-(\d{1,15})/(\d{1,15}|\*)")
_SHA256 = re.compile(r"sha-256=:([A-Za-z0-9+/]{43}=):")
_FIELD_OCTETS = 4096
_FIELDS = 16
_LINE = {"type": "string"}
_TEMPLATE = json_body(TemplateBody)


Body = Annotated[Any, Depends(json_of)]


@router.get("/nf_template", response_model=TemplateList)
async def list_templates(node: NodeDep) -> Response:
    """All templates; `image-upload-status`: CO, or RE where an image is missing, IP on its way."""
    return JSONResponse({"list": node.datastore.listed()})


@router.put("/nf_template", response_class=PlainTextResponse, openapi_extra=_TEMPLATE)
async def put_new_template(node: NodeDep, user: UserDep, body: Body) -> Response:
    """Keeps a new template; answers its id, as plain text."""
    return Response(node.datastore.add(_unwrapped(body), user), media_type="text/plain")


@router.get("/nf_template/{template_id}", response_model=WireTemplate, responses=refusals(404))
async def get_template(template_id: str, node: NodeDep) -> Response:
    """One template, as its client wrote it."""
    return JSONResponse(node.datastore.content(template_id))


@router.put(
    "/nf_template/{template_id}",
    response_class=Response,
    responses=refusals(404),
    openapi_extra=_TEMPLATE,
)
async def put_template(template_id: str, node: NodeDep, user: UserDep, body: Body) -> Response:
    """Changes a template; graphs that run are as they were."""
    node.datastore.replace(template_id, _unwrapped(body), user)
    return Response()


@router.delete("/nf_template/{template_id}", response_class=Response, responses=refusals(404, 409))
async def delete_template(template_id: str, node: NodeDep, user: UserDep) -> Response:
    """Removes a template and its image; 409 if a graph uses it."""
    node.datastore.remove(template_id, user)
    return Response()


@router.get("/nf_capability/{capability}", response_model=TemplateList, responses=refusals(404))
async def get_capability(capability: str, node: NodeDep) -> Response:
    """The templates with a functional capability."""
    found = node.datastore.listed(capability)
    if not found:
        raise AccessError(404, f"no template has the capability {capability!r}")
    return JSONResponse({"list": found})


# Images.


@router.get("/nf_image", response_model=ImageList)
async def list_images(node: NodeDep) -> dict[str, list[dict[str, Any]]]:
    """All images."""
    return {"list": [_shown(row) for row in node.datastore.images()]}


@router.post(
    "/nf_image/chunked_upload",
    response_model=Progress,
    responses=refusals(404, 409),
    openapi_extra={
        "parameters": [
            parameter("query", "vnf_id", "the template, to begin an upload"),
            parameter("query", "upload_id", "the upload, to go on with it"),
            parameter("header", "Content-Range", "bytes FIRST-LAST/ALL", f"^{_RANGE.pattern}$"),
        ],
        **octets_body("the_file", {"vnf_id": _LINE, "upload_id": _LINE}),
    },
)
async def post_chunk(node: NodeDep, user: UserDep, request: Request) -> dict[str, Any]:
    """Takes a part of an image; the first one, without `upload_id`, begins an upload.

    In the query or in the form: `vnf_id`, the template; `upload_id`. Parts come in their order;
    `offset` of the answer is where the next one begins.
    """
    span = _span(request)
    async with _incoming(request, "the_file") as (fields, octets):
        fields = {**request.query_params, **fields}
        upload_id = fields.get("upload_id", "")
        if upload_id:
            upload = node.datastore.files.find(upload_id, user.name)
        else:
            upload = node.datastore.begin(fields.get("vnf_id", ""), user)
        if span is not None and span[0] != upload.size:
            text = f"Content-Range: the upload has {upload.size} octets; go on from there"
            raise GraphRefused("images", text)
        before = upload.size
        try:
            await node.datastore.append(upload, user, _of_length(octets, span))
        except BaseException:
            if not upload_id:
                node.datastore.files.abandon(upload)  # nobody knows its id
            raise
    return {
        "upload_id": upload.id,
        "offset": upload.size,
        "received": upload.size - before,
        "vnf_id": upload.template,
    }


@router.post(
    "/nf_image/chunked_upload_complete",
    response_model=CompletedImage,
    responses=refusals(404, 409),
    openapi_extra=json_body(Completion),
)
async def post_complete(node: NodeDep, user: UserDep, request: Request) -> dict[str, Any]:
    """Makes an upload the image of its template: `upload_id`, and `md5` or `sha256` or both."""
    fields = await _fields_of(request)
    upload = node.datastore.files.find(fields.get("upload_id", ""), user.name)
    known = ("md5", "sha256")
    checksums = {name: value for name, value in fields.items() if name in known}
    if not checksums:
        raise GraphRefused("images", "md5 or sha256 of the whole image is missing")
    row = await node.datastore.complete(upload, user, checksums)
    return {"message": "the image is complete", "vnf_id": row.template, **_shown(row)}


@router.put(
    "/nf_image/{template_id}",
    response_model=Image,
    responses=refusals(404, 409),
    openapi_extra={
        "parameters": [parameter("header", "Repr-Digest", "RFC 9530", f"^{_SHA256.pattern}$")],
        **octets_body("file"),
    },
)
async def put_image(
    template_id: str, node: NodeDep, user: UserDep, request: Request
) -> dict[str, Any]:
    """Gives a template its image."""
    checksums = _digest_of(request)
    upload = node.datastore.begin(template_id, user)
    try:
        async with _incoming(request, "file") as (_, octets):
            await node.datastore.append(upload, user, octets)
        return _shown(await node.datastore.complete(upload, user, checksums))
    finally:
        node.datastore.files.abandon(upload)


@router.get(
    "/nf_image/{template_id}",
    response_class=FileResponse,
    responses={200: content("application/octet-stream", BINARY), **refusals(404)},
)
async def get_image(template_id: str, node: NodeDep) -> FileResponse:
    """The image of a template."""
    row, path = node.datastore.image_file(template_id)
    digest = base64.b64encode(bytes.fromhex(row.digest)).decode()
    headers = {"Repr-Digest": f"sha-256=:{digest}:"}
    return FileResponse(path, media_type="application/octet-stream", headers=headers)


@router.delete("/nf_image/{template_id}", response_class=Response, responses=refusals(404, 409))
async def delete_image(template_id: str, node: NodeDep, user: UserDep) -> Response:
    """Removes the image of a template; 409 if a graph uses it."""
    node.datastore.remove_image(template_id, user)
    return Response()


@conf_router.get("/conf", response_model=Conf)
async def get_conf(node: NodeDep, request: Request) -> dict[str, Any]:
    """Where templates are and which ports there are; the misspelt key is the name on the wire."""
    return {
        "datastoreEndpoint": str(request.base_url).rstrip("/"),
        "unPhisicalPorts": list(node.ports),
    }


def _unwrapped(body: Any) -> Any:
    """The template of a body, which may be in an object beside its upload's status."""
    return body["template"] if isinstance(body, dict) and "template" in body else body


def _shown(row: ImageRow) -> dict[str, Any]:
    return {
        "id": row.template,
        "sha256": row.digest,
        "size": row.size,
        "format": row.format,
        "virtual_size": row.virtual_size,
        "user": row.user,
    }


def _span(request: Request) -> tuple[int, int] | None:
    """Where the octets of the request begin and end, by its Content-Range."""
    text = request.headers.get("content-range")
    if text is None:
        return None
    found = _RANGE.fullmatch(text.strip())
    if found is None or int(found[1]) > int(found[2]):
        raise GraphRefused("images", "Content-Range: write bytes FIRST-LAST/ALL")
    return int(found[1]), int(found[2])


async def _of_length(
    octets: AsyncIterator[bytes], span: tuple[int, int] | None
) -> AsyncIterator[bytes]:
    came = 0
    async for chunk in octets:
        came += len(chunk)
        yield chunk
    if span is not None and came != span[1] - span[0] + 1:
        raise GraphRefused("images", f"Content-Range: {came} octets came; send the part again")


def _digest_of(request: Request) -> dict[str, str]:
    text = request.headers.get("repr-digest")
    if text is None:
        return {}
    found = _SHA256.search(text)
    if found is None:
        raise GraphRefused("images", "Repr-Digest: only sha-256=:BASE64: is known")
    try:
        return {"sha256": base64.b64decode(found[1], validate=True).hex()}
    except binascii.Error as error:
        raise GraphRefused("images", f"Repr-Digest: {error}") from error


async def _fields_of(request: Request) -> dict[str, str]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        body = await json_of(request)
        if not isinstance(body, dict):
            raise GraphRefused("json", "the body is no JSON object")
        return {key: value for key, value in body.items() if isinstance(value, str)}
    if kind == "multipart/form-data":
        async with _incoming(request, "") as (fields, octets):
            async for _ in octets:
                pass
            return fields
    try:
        form = await request.form(max_fields=_FIELDS)
    except (ValueError, FormParserError) as error:
        raise GraphRefused("images", f"the form cannot be read: {error}") from error
    return {key: value for key, value in form.items() if isinstance(value, str)}


@asynccontextmanager
async def _incoming(
    request: Request, field: str
) -> AsyncIterator[tuple[dict[str, str], AsyncIterator[bytes]]]:
    """The fields of a request before its file, and the octets of that as they come.

    Nothing is stored on the way: a form's file, in its field `field`, is passed on in pieces.
    """
    header = request.headers.get("content-type", "")
    kind, options = parse_options_header(header)
    if kind != b"multipart/form-data":
        if kind not in (b"application/octet-stream", b""):
            text = "Content-Type: application/octet-stream or multipart/form-data is needed"
            raise AccessError(415, text)
        yield {}, request.stream()
        return
    boundary = options.get(b"boundary")
    if not boundary or len(boundary) > 200:
        raise GraphRefused("images", "Content-Type: the form's boundary is missing")
    form = _Form(field, boundary)
    stream = request.stream()
    pieces = form.octets(stream)
    first = await anext(pieces, None)

    async def octets() -> AsyncIterator[bytes]:
        if first is not None:
            yield first
        async for piece in pieces:
            yield piece

    yield form.fields, octets()


class _Form:
    """Reads a form (RFC 7578) piece by piece."""

    def __init__(self, field: str, boundary: bytes) -> None:
        self.fields: dict[str, str] = {}
        self._field = field
        self._pieces: list[bytes] = []
        self._header = self._value = b""
        self._name = ""
        self._content = bytearray()
        self._ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": self._on_header,
                "on_header_value": self._on_value,
                "on_header_end": self._on_header_end,
                "on_part_data": self._on_data,
                "on_part_end": self._end,
                "on_end": self._whole,
            },
        )

    async def octets(self, stream: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The octets of the file; what comes before it is in `fields` from the first piece on."""
        try:
            async for chunk in stream:
                self._parser.write(chunk)
                pieces, self._pieces = self._pieces, []
                for piece in pieces:
                    yield piece
            self._parser.finalize()
        except FormParserError as error:
            raise GraphRefused("images", f"the form cannot be read: {error}") from error
        if not self._ended:
            raise GraphRefused("images", "the form is cut off")

    def _begin(self) -> None:
        self._name = ""
        self._content = bytearray()

    def _on_header(self, data: bytes, start: int, end: int) -> None:
        self._header += data[start:end]
        self._bound(len(self._header))

    def _on_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]
        self._bound(len(self._value))

    def _bound(self, octets: int) -> None:
        if octets > _FIELD_OCTETS or len(self.fields) > _FIELDS:
            raise GraphRefused("images", "the form has too long or too many fields")

    def _on_header_end(self) -> None:
        if self._header.lower() == b"content-disposition":
            _, options = parse_options_header(self._value)
            self._name = options.get(b"name", b"").decode(errors="replace")
        self._header = self._value = b""

    def _on_data(self, data: bytes, start: int, end: int) -> None:
        if self._field and self._name == self._field:
            self._pieces.append(data[start:end])
            return
        self._content += data[start:end]
        self._bound(len(self._content))

    def _end(self) -> None:
        if self._name != self._field or not self._field:
            self.fields[self._name] = self._content.decode(errors="replace")

    def _whole(self) -> None:
        self._ended = True
