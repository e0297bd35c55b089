# SPDX-License-Identifier: Apache-2.0
"""What /v2 and /conf take and answer."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

from headrace.node.datastore.wire import WireTemplate
from headrace.node.rest.contract import Answer

UploadStatus = Literal["CO", "RE", "IP"]
"""Whether a template's image is there: complete, required, in progress."""


class WrappedTemplate(BaseModel):
    """A template beside the status of its upload, as the original's page sends it."""

    model_config = ConfigDict(extra="allow")

    template: WireTemplate


class TemplateBody(RootModel[WireTemplate | WrappedTemplate]):
    """What PUT takes: a template, or one that is wrapped."""


class TemplateEntry(Answer):
    """A template with its id."""

    id: str
    template: WireTemplate
    image_upload_status: UploadStatus = Field(alias="image-upload-status")


class TemplateList(Answer):
    """Templates."""

    templates: list[TemplateEntry] = Field(alias="list")


class Image(Answer):
    """The image of a template: of `size` octets, a disk of `virtual_size`; `user` has sent it."""

    id: str
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    size: int
    format: str
    virtual_size: int
    user: str


class ImageList(Answer):
    """Images."""

    images: list[Image] = Field(alias="list")


class Progress(Answer):
    """How far an upload is; `offset` is where its next part begins."""

    upload_id: str
    offset: int
    received: int
    vnf_id: str


class Completion(BaseModel):
    """Body of POST .../chunked_upload_complete; `md5` or `sha256` of the whole image, or both."""

    upload_id: str
    md5: Annotated[str, Field(pattern="^[0-9a-fA-F]{32}$")] | None = None
    sha256: Annotated[str, Field(pattern="^[0-9a-fA-F]{64}$")] | None = None


class CompletedImage(Image):
    """The image that an upload has become."""

    message: str
    vnf_id: str


class Conf(Answer):
    """Where templates are, and the names of the physical ports (misspelt, as in the original)."""

    datastore: str = Field(alias="datastoreEndpoint")
    ports: list[str] = Field(alias="unPhisicalPorts")
