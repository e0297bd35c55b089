# SPDX-License-Identifier: Apache-2.0
"""The datastore of a node: the templates of its files, those of its clients, and their images.

A client's template belongs to the user who has sent it: the owner and administrators change it and
its image, everybody reads and deploys it. The templates of the node's files can't be changed. What
a graph uses can't be removed; a new image of a template is for graphs that are deployed afterwards,
while machines that run keep theirs.
"""

import asyncio
import json
import re
import secrets
import string
from collections.abc import AsyncIterable, Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from headrace.engines.images import ImageError as ContainerImageError
from headrace.engines.images.registry import reference
from headrace.node.access.users import User
from headrace.node.config import DatastoreConfig
from headrace.node.datastore.images import ImageFiles, Upload
from headrace.node.datastore.remote import Remote
from headrace.node.datastore.wire import (
    Unusable,
    WireTemplate,
    from_image,
    own_function,
    read,
)
from headrace.node.deployment.store import Store
from headrace.node.errors import AccessError, Busy, GraphRefused, NotFound, describe
from headrace.node.planning.nffg import VnfModel
from headrace.node.planning.resources import Plan
from headrace.node.templates import Template, TemplateStore

_LETTERS = string.ascii_uppercase + string.digits
_ID_LENGTH = 6
_ID = re.compile(r"[A-Za-z0-9_.\-]{1,64}")
_MOST_TEMPLATES = 1000
COMPLETE, REQUIRED, IN_PROGRESS = "CO", "RE", "IP"
"""The original's words for the state of a template's image."""


@dataclass(frozen=True)
class Held:
    """A client's template."""

    id: str
    content: dict[str, Any]
    user: str
    group: str
    origin: str


@dataclass(frozen=True)
class ImageRow:
    """The image of a template."""

    template: str
    digest: str
    size: int
    format: str
    virtual_size: int
    user: str


class Datastore:
    """The datastore of one node; it belongs to its event loop. `own` are the files' templates."""

    def __init__(
        self,
        store: Store,
        own: TemplateStore,
        config: DatastoreConfig,
        directory: Path,
        plans: Callable[[], dict[str, Plan]],
    ) -> None:
        self._store = store
        self._own = own
        self._plans = plans
        self.files = ImageFiles(
            directory, config.max_mb << 20, config.image_mb << 20, config.disk_gb << 30
        )
        self._remote = Remote(config)
        self._fetching = asyncio.Lock()
        self._known: TemplateStore | None = None

    def prepare(self) -> None:
        """Makes the directory of images, and removes what nothing refers to."""
        self.files.prepare()
        self._collect()

    def templates(self) -> TemplateStore:
        """What graphs can be made from."""
        if self._known is None:
            usable, unusable = list(self._own.all()), dict[str, str]()
            for held in self.held():
                wire = read(held.content)
                try:
                    usable.append(self._usable(held.id, wire))
                except Unusable as why:
                    unusable[held.id] = unusable[wire.capability] = str(why)
            self._known = TemplateStore(usable, unusable)
        return self._known

    def _usable(self, template_id: str, wire: WireTemplate) -> Template:
        try:
            return self._made(template_id, wire)
        except ValidationError as error:
            raise Unusable(describe(error, "template")) from error

    def _made(self, template_id: str, wire: WireTemplate) -> Template:
        if wire.is_own:
            return own_function(template_id, wire, self._own.all())
        if wire.registry:
            return from_image(template_id, wire, self._at_registry(wire), "")
        if not wire.needs_image:
            raise Unusable(f"no engine of this node runs images of type {wire.kind}")
        image = self.image(template_id)
        if image is None:
            raise Unusable(f"its image is missing: PUT /v2/nf_image/{template_id}")
        path = self.files.path(image.digest)
        if not path.is_file():
            raise Unusable(f"its image is lost: PUT /v2/nf_image/{template_id} again")
        return from_image(template_id, wire, str(path), image.format)

    def _at_registry(self, wire: WireTemplate) -> str:
        """The image that a template names, at a registry that the operator has named."""
        try:
            origin = reference(wire.registry).origin
        except ContainerImageError as error:
            raise Unusable(str(error)) from error
        if not self._remote.is_allowed(origin):
            text = f"images may not come from {origin} (datastore.image_origins in node.yaml)"
            raise Unusable(text)
        return wire.registry

    # Templates.

    def held(self) -> list[Held]:
        """The templates of clients and of the other datastore."""
        rows = self._store.rows("SELECT id, content, user, member_of, origin FROM template")
        return [Held(row[0], json.loads(row[1]), *row[2:]) for row in rows]

    def find(self, template_id: str) -> Held | None:
        """The client's template of this id."""
        return next((held for held in self.held() if held.id == template_id), None)

    def listed(self, capability: str | None = None) -> list[dict[str, Any]]:
        """All templates, or those of a capability, as the original lists them."""
        found = [
            self._entry(template.id, template.wire(), COMPLETE)
            for template in (
                self._own.all() if capability is None else self._own.capable(capability)
            )
        ]
        for held in self.held():
            wire = read(held.content)
            if capability is None or capability in (wire.capability, wire.name, held.id):
                found.append(self._entry(held.id, held.content, self.status(held.id)))
        return found

    @staticmethod
    def _entry(template_id: str, content: dict[str, Any], status: str) -> dict[str, Any]:
        return {"id": template_id, "template": content, "image-upload-status": status}

    def status(self, template_id: str) -> str:
        """Whether a template's image is there; one that needs none is complete."""
        held = self.find(template_id)
        if held is None or not read(held.content).needs_image or self.image(template_id):
            return COMPLETE
        return IN_PROGRESS if self.files.is_coming(template_id) else REQUIRED

    def content(self, template_id: str) -> dict[str, Any]:
        """A template as its client wrote it.

        Raises:
            NotFound: there is none of that id.
        """
        own, held = self._own.get(template_id), self.find(template_id)
        if own is None and held is None:
            raise NotFound("templates", f"there is no template {template_id!r}")
        return held.content if held is not None else own.wire() if own else {}

    def add(self, content: Any, user: User) -> str:
        """Keeps a new template; returns its id, six letters as the original gives them.

        Raises:
            GraphRefused: it has not the form.
        """
        read(content)
        if len(self.held()) >= _MOST_TEMPLATES:
            raise AccessError(403, f"the datastore has {_MOST_TEMPLATES} templates already")
        while True:
            template_id = "".join(secrets.choice(_LETTERS) for _ in range(_ID_LENGTH))
            if self._own.get(template_id) is None and self.find(template_id) is None:
                break
        self._put(Held(template_id, content, user.name, user.group, ""))
        return template_id

    def replace(self, template_id: str, content: Any, user: User) -> None:
        """Puts another content in the place of a template's."""
        held = self._changeable(template_id, user)
        if read(content).kind != read(held.content).kind:  # an image is one of its type
            self._store.write("DELETE FROM image WHERE template=?", template_id)
        self._put(Held(template_id, content, held.user, held.group, held.origin))

    def remove(self, template_id: str, user: User) -> None:
        """Removes a template and its image.

        Raises:
            Busy: a graph uses it.
        """
        self._changeable(template_id, user)
        self._demand_unused(template_id)
        self._store.write("DELETE FROM image WHERE template=?", template_id)
        self._store.write("DELETE FROM template WHERE id=?", template_id)
        self._changed()

    def _put(self, held: Held) -> None:
        self._store.write(
            "INSERT OR REPLACE INTO template VALUES (?,?,?,?,?)",
            *(held.id, json.dumps(held.content), held.user, held.group, held.origin),
        )
        self._changed()

    def _changeable(self, template_id: str, user: User) -> Held:
        held = self.find(template_id)
        if held is None:
            if self._own.get(template_id) is not None:
                text = f"template {template_id!r} is of the node's files and cannot be changed"
                raise AccessError(403, text)
            raise NotFound("templates", f"there is no template {template_id!r}")
        if not user.is_admin and user.name != held.user:
            raise AccessError(403, f"template {template_id!r} is user {held.user}'s")
        return held

    def _demand_unused(self, template_id: str) -> None:
        for graph_id, plan in self._plans().items():
            if any(vnf.template == template_id for vnf in plan.vnfs()):
                raise Busy("templates", f"graph {graph_id!r} uses template {template_id!r}")

    def _changed(self) -> None:
        self._known = None
        self._collect()

    def _collect(self) -> None:
        used = {image.digest for image in self.images()}
        for plan in self._plans().values():
            used |= {
                Path(str(vnf.configuration.get(key, ""))).name
                for vnf in plan.vnfs()
                for key in ("disk", "image", "archive")
            }
        self.files.collect(used)

    # Images.

    def images(self) -> list[ImageRow]:
        """All images."""
        return [ImageRow(*row) for row in self._store.rows("SELECT * FROM image ORDER BY template")]

    def image(self, template_id: str) -> ImageRow | None:
        """The image of a template."""
        return next((image for image in self.images() if image.template == template_id), None)

    def image_file(self, template_id: str) -> tuple[ImageRow, Path]:
        """The image of a template and its file.

        Raises:
            NotFound: there is none.
        """
        image = self.image(template_id)
        path = self.files.path(image.digest) if image else None
        if image is None or path is None or not path.is_file():
            raise NotFound("images", f"template {template_id!r} has no image")
        return image, path

    def begin(self, template_id: str, user: User) -> Upload:
        """An upload of an image of a template."""
        self._changeable(template_id, user)
        return self.files.begin(user.name, template_id)

    async def append(self, upload: Upload, user: User, octets: AsyncIterable[bytes]) -> None:
        """Appends what comes to an upload, all of it or nothing.

        Raises:
            AccessError: with code 413, a limit is reached.
        """

        def quota_left() -> int | None:
            limit = user.quota.images_mb
            if limit is None:
                return None
            stored = sum(image.size for image in self.images() if image.user == user.name)
            return (limit << 20) - stored - self.files.pending(user.name)

        async with self.files.writer(upload, quota_left) as writer:
            async for chunk in octets:
                await writer.write(chunk)

    async def complete(self, upload: Upload, user: User, checksums: dict[str, str]) -> ImageRow:
        """Makes an upload the image of its template."""
        held = self._changeable(upload.template, user)
        size = upload.size
        kind = read(held.content).kind
        digest, found = await self.files.complete(upload, checksums, kind)
        if self.find(upload.template) is None:
            self._collect()
            raise NotFound("templates", f"template {upload.template!r} was removed meanwhile")
        row = ImageRow(upload.template, digest, size, found.format, found.virtual_size, user.name)
        self._store.write(
            "INSERT OR REPLACE INTO image VALUES (?,?,?,?,?,?)",
            *(row.template, row.digest, row.size, row.format, row.virtual_size, row.user),
        )
        self._changed()
        return row

    def remove_image(self, template_id: str, user: User) -> None:
        """Removes the image of a template.

        Raises:
            Busy: a graph uses it.
        """
        self._changeable(template_id, user)
        if self.image(template_id) is None:
            raise NotFound("images", f"template {template_id!r} has no image")
        self._demand_unused(template_id)
        self._store.write("DELETE FROM image WHERE template=?", template_id)
        self._changed()

    # The other datastore.

    async def provide(self, vnfs: Iterable[VnfModel], user: User) -> None:
        """Fetches what the VNFs of a graph ask for and only another place has.

        Raises:
            GraphRefused: it cannot be had from there.
        """
        async with self._fetching:
            for vnf in vnfs:
                await self._provide(vnf, user)

    async def _provide(self, vnf: VnfModel, user: User) -> None:
        found, _ = self.templates().candidates(vnf)
        if vnf.vnf_template:
            held = self.find(vnf.vnf_template)
            ours = self._own.get(vnf.vnf_template) or (held is not None and not held.origin)
            if self._remote.url and not ours:
                held = await self._fetch(vnf.vnf_template, None)
            await self._fetch_image(held, user)
        elif not found:
            for asked in (vnf.functional_capability, vnf.name):
                for template_id, content in await self._remote.capable(asked) if asked else []:
                    held = self.find(template_id)
                    if self._own.get(template_id) is None and (held is None or held.origin):
                        await self._fetch_image(await self._fetch(template_id, content), user)
                if asked and self.templates().capable(asked):
                    return

    async def _fetch(self, template_id: str, content: Any | None) -> Held | None:
        """The other datastore's template, kept here; what is kept if that does not answer."""
        before = self.find(template_id)
        try:
            content = content or await self._remote.template(template_id)
        except GraphRefused:
            if before is None:
                raise
            return before
        if content is None:
            return before
        if not _ID.fullmatch(template_id):
            raise GraphRefused("datastore", f"{template_id[:80]!a} cannot be the id of a template")
        read(content)
        held = Held(template_id, content, "(datastore)", "admin", str(self._remote.url))
        if before is None or before.content != content:
            if before is not None:
                self._store.write("DELETE FROM image WHERE template=?", template_id)
            self._put(held)
        return held

    async def _fetch_image(self, held: Held | None, user: User) -> None:
        if held is None or self.image(held.id) is not None:
            return
        wire = read(held.content)
        if not wire.needs_image:
            return
        url = wire.uri if wire.uri.startswith(("http://", "https://")) else ""
        if not url and held.origin:
            url = self._remote.image_of(held.id)
        if not self._remote.is_allowed(url):
            return
        payer = User(held.user, "admin") if held.origin else user
        upload = self.files.begin(payer.name, held.id)
        try:
            async with self._remote.image(url) as octets:
                await self.append(upload, payer, octets)
            await self.complete(upload, User(payer.name, "admin", payer.quota), {})
        except BaseException:
            with suppress(OSError):
                self.files.abandon(upload)
            raise
