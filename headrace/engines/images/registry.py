# SPDX-License-Identifier: Apache-2.0
"""Images of a registry (opencontainers/distribution-spec 1.1, Docker's HTTP API v2).

By HTTPS, but for registries of this machine itself (localhost, 127.0.0.1, ::1), as Docker does.
Anonymously, or with the token that the registry names a place for (`WWW-Authenticate: Bearer`).
Sizes are those that the manifest says: a longer answer is refused while it comes.
"""

import contextlib
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

import httpx

from headrace.engines.images import ImageError
from headrace.engines.images.model import (
    ACCEPTED,
    MAX_DOCUMENT,
    Index,
    Manifest,
    digest_of,
    document,
    for_this_machine,
    is_digest,
    is_index,
    read,
)
from headrace.engines.images.sources import (
    REGISTRY,
    ImageContent,
    LayerSource,
    Stream,
    content,
    verified,
)

_TIMEOUT_S = 30.0
_LOCAL = ("localhost", "127.0.0.1", "::1")
_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_REFERENCE = re.compile(
    r"(?P<host>(?:[A-Za-z0-9.\-]+|\[[0-9a-fA-F:]+\])(?::\d{1,5})?)"
    rf"/(?P<name>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._\-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True)
class Reference:
    """An image at a registry; `wanted` is a tag or a digest."""

    host: str
    name: str
    wanted: str

    @property
    def url(self) -> str:
        """The beginning of all paths of this image."""
        return f"{self.origin}/v2/{self.name}"

    @property
    def origin(self) -> str:
        """The registry, as http://HOST[:PORT] or https://HOST[:PORT]."""
        host = urlsplit(f"//{self.host}").hostname
        return f"{'http' if host in _LOCAL else 'https'}://{self.host}"


def reference(text: str) -> Reference:
    """Reads `docker://HOST[:PORT]/NAME[:TAG][@DIGEST]`; without a tag it is `latest`.

    Raises:
        ImageError: it is not of this form.
    """
    found = _REFERENCE.fullmatch(text.removeprefix(REGISTRY))
    if found is None or not text.startswith(REGISTRY):
        raise ImageError(f"{text!r} is not {REGISTRY}HOST[:PORT]/NAME[:TAG][@DIGEST]")
    return Reference(found["host"], found["name"], found["digest"] or found["tag"] or "latest")


class Registry:
    """The image `image` of a registry; a source. Close it after use."""

    def __init__(self, image: Reference) -> None:
        self._image = image
        self._client = httpx.Client(timeout=_TIMEOUT_S, follow_redirects=True, max_redirects=5)
        self._sizes: dict[str, int] = {}
        self._authorization: dict[str, str] = {}

    def close(self) -> None:
        """Ends the connections."""
        self._client.close()

    def resolve(self, tag: str | None) -> ImageContent:
        """See Source."""
        wanted = tag or self._image.wanted
        data, media_type = self._manifest(wanted)
        identity = digest_of(data)
        if is_index(data, media_type):
            chosen = for_this_machine(read(Index, "the index", data))
            data, _ = self._manifest(chosen.digest)
            identity = chosen.digest
        manifest = read(Manifest, "the manifest", data)
        self._sizes = {layer.digest: layer.size for layer in manifest.layers}
        config = manifest.config
        with self._get(f"blobs/{config.digest}", min(config.size, MAX_DOCUMENT)) as file:
            data = verified(config.digest, file.read())
        return content(identity, manifest, data)

    def _manifest(self, wanted: str) -> tuple[bytes, str]:
        with self._get(f"manifests/{wanted}", MAX_DOCUMENT, Accept=ACCEPTED) as file:
            data = file.read()
        return (verified(wanted, data) if is_digest(wanted) else data), file.media_type

    @contextmanager
    def open(self, layer: LayerSource) -> Iterator[Stream]:
        """See Source."""
        with self._get(f"blobs/{layer.name}", self._sizes[layer.name]) as file:
            yield file

    @contextmanager
    def _get(self, path: str, size: int, **headers: str) -> Iterator["_Body"]:
        url = f"{self._image.url}/{path}"
        try:
            for attempt in (1, 2):
                sent = {**headers, **self._authorization, "Accept-Encoding": "identity"}
                with self._client.stream("GET", url, headers=sent) as answer:
                    if answer.status_code == httpx.codes.UNAUTHORIZED and attempt == 1:
                        self._authorization = self._token(answer)
                        continue
                    if answer.status_code != httpx.codes.OK:
                        raise ImageError(f"{url} answers {answer.status_code}")
                    yield _Body(url, answer, size)
                    return
        except httpx.HTTPError as error:
            raise ImageError(f"{url}: {error or type(error).__name__}") from error

    def _token(self, refusal: httpx.Response) -> dict[str, str]:
        """What the registry's own token service gives to anyone."""
        challenge = refusal.headers.get("WWW-Authenticate", "")
        words = dict(_CHALLENGE.findall(challenge))
        realm = words.pop("realm", "")
        if not challenge.lower().startswith("bearer ") or not realm:
            raise ImageError(f"{self._image.host} wants a login, which is not supported")
        place = urlsplit(realm)
        ours = urlsplit(self._image.url)
        if place.scheme != "https" and (place.scheme, place.netloc) != (ours.scheme, ours.netloc):
            raise ImageError(f"{self._image.host} wants a token of {realm}, without TLS")
        answer = self._client.get(realm, params=words)
        if answer.status_code != httpx.codes.OK:
            raise ImageError(f"{realm} answers {answer.status_code}")
        given = document("the token", answer.content[:MAX_DOCUMENT])
        token = given.get("token") or given.get("access_token")
        if not isinstance(token, str):
            raise ImageError(f"{realm} gives no token")
        return {"Authorization": f"Bearer {token}"}


class _Body(io.RawIOBase):
    """The body of an answer, of at most `size` octets."""

    def __init__(self, url: str, answer: httpx.Response, size: int) -> None:
        self.media_type = answer.headers.get("Content-Type", "").split(";")[0]
        self._url = url
        self._chunks = answer.iter_raw()
        self._left = size
        self._ready = b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        while size < 0 or len(self._ready) < size:
            chunk = b""
            with contextlib.suppress(StopIteration):
                chunk = next(self._chunks)
            if not chunk:
                break
            self._left -= len(chunk)
            if self._left < 0:
                raise ImageError(f"{self._url} is longer than it may be")
            self._ready += chunk
        size = len(self._ready) if size < 0 else size
        answer, self._ready = self._ready[:size], self._ready[size:]
        return answer
