# SPDX-License-Identifier: Apache-2.0
"""Tests 8 to 10: the primitives of the interface to the repository of VNFs and their images."""

import hashlib
import json
import os
import struct

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Findings, NotApplicable
from headrace.conformance.rest import Rest
from headrace.conformance.target import Target

_TYPE = "conformance-type"
_IMAGE_MB = 3
_TYPES = {"virtual-machine-kvm", "kvm", "docker", "native", "dpdk", "onos-application",
          "process", "container", "vm"}  # fmt: skip


def _template(name: str) -> dict[str, object]:
    """A virtual machine, as the originals' clients describe one."""
    return {
        "name": name,
        "functional-capability": _TYPE,
        "vnf-type": "virtual-machine-kvm",
        "uri-image": "conformance.img",
        "uri-image-type": "local-file",
        "memory-size": 64,
        "CPUrequirements": {"platformType": "x86_64", "socket": [{"coreNumbers": 1}]},
        "ports": [{"position": "0-1", "label": "port", "min": "2", "name": "port"}],
    }


async def _put(rest: Rest, name: str) -> str:
    """Writes a template; its id.

    Raises:
        NotApplicable: the repository takes none.
    """
    answer = await rest("PUT", "/v2/nf_template", _template(name))
    if answer.status in (404, 405, 501):
        raise NotApplicable(f"the repository takes no templates: {answer}")
    text = answer.body.decode(errors="replace").strip().strip('"')
    return text if answer.good else ""


async def by_type(target: Target, findings: Findings) -> None:
    """Test 8."""
    rest = target.node.need_repository()
    every = await target.node.templates()
    by_capability: dict[str, set[str]] = {}
    for name, template in every:
        by_capability.setdefault(str(template.get("functional-capability")), set()).add(name)
    written = [name for name in (await _put(rest, "first"), await _put(rest, "second")) if name]
    findings.equal("two templates of one type can be written", 2, len(written))
    by_capability.setdefault(_TYPE, set()).update(written)
    try:
        for capability, expected in sorted(by_capability.items()):
            answer = await rest.get(f"/v2/nf_capability/{capability}")
            if answer.status != 200:
                findings.equal(f"type {capability}: the answer", 200, str(answer))
                continue
            entries = answer.member("list") or []
            found = {str(entry.get("id")) for entry in entries}
            findings.equal(f"type {capability}: its templates", expected, found)
    finally:
        for name in written:
            await rest("DELETE", f"/v2/nf_template/{name}")
    unknown = await rest.get("/v2/nf_capability/no-such-type")
    findings.holds(
        "a type that there is not has no templates",
        unknown.status == 404 or unknown.member("list") == [],
        "404 or an empty list",
        unknown,
    )


async def by_id(target: Target, findings: Findings) -> None:
    """Test 9."""
    rest = target.node.need_repository()
    sent = _template("by id")
    name = await _put(rest, "by id")
    findings.demand("a template can be written", bool(name), "an id", name or "none")
    try:
        answer = await rest.get(f"/v2/nf_template/{name}")
        findings.equal("the answer", 200, answer.status)
        for key, value in sent.items():
            findings.equal(f"{key} is as it was written", json.dumps(value),
                           json.dumps(answer.member(key)))  # fmt: skip
    finally:
        await rest("DELETE", f"/v2/nf_template/{name}")
    for known, listed in (await target.node.templates())[:20]:
        answer = await rest.get(f"/v2/nf_template/{known}")
        kind = answer.member("vnf-type")
        findings.holds(
            f"template {known}: it says what it is made from and what ports it has",
            answer.status == 200 and kind in _TYPES and bool(answer.member("ports")),
            "200, a type, ports",
            f"{answer.status}, {kind}, {len(answer.member('ports') or ())} ranges of ports",
        )
        findings.equal(
            f"template {known}: it is of the type that the list says",
            listed.get("functional-capability"),
            answer.member("functional-capability"),
        )
    unknown = await rest.get(f"/v2/nf_template/{name}")
    findings.equal("a template that was deleted is not found", 404, unknown.status)


def _image() -> bytes:
    """A raw disk with a partition table and random content, of which no part is like another."""
    content = bytearray(os.urandom(_IMAGE_MB << 20))
    entry = struct.pack("<BBBBBBBBII", 0x80, 0, 2, 0, 0x83, 0, 2, 0, 1, (_IMAGE_MB << 11) - 1)
    content[446:512] = entry + bytes(48) + b"\x55\xaa"
    return bytes(content)


async def image(target: Target, findings: Findings) -> None:
    """Test 10."""
    rest = target.node.need_repository()
    name = await _put(rest, "with an image")
    findings.demand("a template can be written", bool(name), "an id", name or "none")
    sent = _image()
    path = f"/v2/nf_image/{name}"
    try:
        before = await rest.get(path)
        findings.equal("before it is sent there is no image", 404, before.status)
        stored = await rest("PUT", path, octets=sent, kind="application/octet-stream")
        findings.demand("the repository takes an image", stored.good, "200", stored)
        answer = await rest.get(path)
        findings.equal("it gives it back", 200, answer.status)
        findings.equal("octets", len(sent), len(answer.body))
        findings.equal(
            "SHA-256",
            hashlib.sha256(sent).hexdigest(),
            hashlib.sha256(answer.body).hexdigest(),
        )
    finally:
        await rest("DELETE", path)
        await rest("DELETE", f"/v2/nf_template/{name}")


_BOOTED = "The node is up."

CASES = (
    Case(
        8, "VSIRI: VNF specifications by type", Part.INTERFACES, _BOOTED,
        ("Two templates of a new type are written.",
         "The templates of every type in the repository are asked for."),
        "For each type all of its templates, and no other's.",
        by_type,
    ),
    Case(
        9, "VSIRI: VNF specifications by ID", Part.INTERFACES, _BOOTED,
        ("A template is written and asked for by its id.",
         "All templates of the repository are asked for by their ids."),
        "The template as it was written; for the others what they are made from, and their ports.",
        by_id,
    ),
    Case(
        10, "VSIRI: VNF images", Part.INTERFACES, _BOOTED,
        ("An image is sent for a template, and asked for.",),
        "The same octets.",
        image,
    ),
)  # fmt: skip
