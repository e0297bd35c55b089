# SPDX-License-Identifier: Apache-2.0
"""`headrace vnf templates | images ...`: what VNFs can be made from; `logs`, `console`."""

import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import httpx
import typer
from rich.table import Table

from headrace.client import DEFAULT_RUNDIR, NodeClient, Rundir, console, fail

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
TemplateId = Annotated[str, typer.Argument(help="The id of the template.")]
TemplateFile = Annotated[Path, typer.Argument(help="The template as JSON, in the original's form.")]

vnf = typer.Typer(no_args_is_help=True, help="Network functions: templates and images.")
templates = typer.Typer(no_args_is_help=True, help="What VNFs can be made from.")
images = typer.Typer(no_args_is_help=True, help="The disks of virtual machines.")
vnf.add_typer(templates, name="templates")
vnf.add_typer(images, name="images")

_CHUNK = 8 << 20
_FOLLOW_S = 0.5
_UPLOAD = "/v2/nf_image/chunked_upload"


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(vnf, name="vnf")


def _template(template_id: str) -> str:
    return f"/v2/nf_template/{quote(template_id, safe='')}"


def _image(template_id: str) -> str:
    return f"/v2/nf_image/{quote(template_id, safe='')}"


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        fail(f"{file}: {error.strerror}")


@templates.command("list")
def list_templates(rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """List the templates; image: CO is complete, RE missing, IP on its way."""
    listed = NodeClient.of(rundir).get("/v2/nf_template")["list"]
    if as_json:
        typer.echo(json.dumps(listed, indent=2))
        return
    table = Table("id", "name", "capability", "type", "image")
    for entry in listed:
        content = entry["template"]
        capability = content.get("functional-capability") or ""
        kind = content.get("vnf-type", "")
        name = content.get("name") or ""
        table.add_row(entry["id"], name, capability, kind, entry["image-upload-status"])
    console().print(table)


@templates.command("show")
def show_template(
    template_id: TemplateId, rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False
) -> None:
    """Print a template as it was written: JSON in any case."""
    typer.echo(json.dumps(NodeClient.of(rundir).get(_template(template_id)), indent=2))


@templates.command("add")
def add_template(
    file: TemplateFile, rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False
) -> None:
    """Keep a new template; prints its id."""
    made = NodeClient.of(rundir).request("PUT", "/v2/nf_template", _read(file)).text
    typer.echo(json.dumps({"id": made}) if as_json else made)


@templates.command("replace")
def replace_template(
    template_id: TemplateId,
    file: TemplateFile,
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Change a template; graphs that run stay as they are."""
    NodeClient.of(rundir).request("PUT", _template(template_id), _read(file))
    if as_json:
        typer.echo(json.dumps({"id": template_id}))


@templates.command("delete")
def delete_template(
    template_id: TemplateId, rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False
) -> None:
    """Remove a template and its image, unless a graph uses it."""
    NodeClient.of(rundir).request("DELETE", _template(template_id))
    if as_json:
        typer.echo(json.dumps({"deleted": template_id}))


@images.command("list")
def list_images(rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """List the images."""
    listed = NodeClient.of(rundir).get("/v2/nf_image")["list"]
    if as_json:
        typer.echo(json.dumps(listed, indent=2))
        return
    table = Table("template", "format", "size", "disk", "user", "sha256")
    for image in listed:
        sizes = (f"{image[key] / (1 << 20):.1f} MiB" for key in ("size", "virtual_size"))
        table.add_row(image["id"], image["format"], *sizes, image["user"], image["sha256"])
    console().print(table)


@images.command("put")
def put_image(
    template_id: TemplateId,
    file: Annotated[Path, typer.Argument(help="The image: qcow2 without a backing file, or raw.")],
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Give a template its image, in chunks, with its checksum."""
    client = NodeClient.of(rundir)
    digest, upload, begin = hashlib.sha256(), "", 0
    query = f"vnf_id={quote(template_id, safe='')}"
    try:
        size = file.stat().st_size
        with (
            file.open("rb") as source,
            typer.progressbar(length=size, label=file.name, hidden=as_json) as bar,
        ):
            while begin < size and (chunk := source.read(_CHUNK)):
                digest.update(chunk)
                headers = {
                    "Content-Type": "application/octet-stream",
                    "Content-Range": f"bytes {begin}-{begin + len(chunk) - 1}/{size}",
                }
                path = f"{_UPLOAD}?{query}" + (f"&upload_id={upload}" if upload else "")
                upload = client.request("POST", path, chunk, headers).json()["upload_id"]
                begin += len(chunk)
                bar.update(len(chunk))
    except OSError as error:
        fail(f"{file}: {error.strerror}")
    if not upload:
        fail(f"{file} is empty")
    body = json.dumps({"upload_id": upload, "sha256": digest.hexdigest()})
    client.request("POST", f"{_UPLOAD}_complete", body.encode())
    if as_json:
        said = {"id": template_id, "size": size, "sha256": digest.hexdigest()}
        typer.echo(json.dumps(said, indent=2))


@images.command("get")
def get_image(
    template_id: TemplateId,
    file: Annotated[Path, typer.Argument(help="The new file to write.")],
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Write the image of a template to a file."""
    NodeClient.of(rundir).download(_image(template_id), file)
    if as_json:
        said = {"id": template_id, "file": str(file), "size": file.stat().st_size}
        typer.echo(json.dumps(said))


@images.command("delete")
def delete_image(
    template_id: TemplateId, rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False
) -> None:
    """Remove the image of a template, unless a graph uses it."""
    NodeClient.of(rundir).request("DELETE", _image(template_id))
    if as_json:
        typer.echo(json.dumps({"deleted": template_id}))


GraphId = Annotated[str, typer.Argument(help="The id of the graph.")]
VnfId = Annotated[str, typer.Argument(help="The id of the VNF in it.")]
Lines = Annotated[int, typer.Option(min=0, max=10_000, help="How many of the last lines.")]
Follow = Annotated[bool, typer.Option("--follow", help="Go on with what is written from now on.")]
TextAsJson = Annotated[
    bool, typer.Option("--json", help="An object on a line for each piece: its text and end.")
]


@vnf.command()
def logs(
    graph_id: GraphId,
    vnf_id: VnfId,
    lines: Lines = 100,
    follow: Follow = False,
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: TextAsJson = False,
) -> None:
    """Print what the process of a VNF has written."""
    _print(NodeClient.of(rundir), graph_id, vnf_id, "log", lines, follow, as_json)


@vnf.command("console")
def show_console(
    graph_id: GraphId,
    vnf_id: VnfId,
    lines: Lines = 100,
    follow: Follow = False,
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: TextAsJson = False,
) -> None:
    """Print what a virtual machine has written on its first serial port."""
    _print(NodeClient.of(rundir), graph_id, vnf_id, "console", lines, follow, as_json)


@vnf.command("exec")
def execute(
    graph_id: GraphId,
    vnf_id: VnfId,
    command: Annotated[list[str], typer.Argument(help="The command and its words, after `--`.")],
    stdin: Annotated[
        bool, typer.Option("--stdin", help="Hand on what this command reads.")
    ] = False,
    timeout: Annotated[float, typer.Option(min=0.1, max=100, help="Seconds.")] = 30.0,
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Run a command in a VNF, without a shell; exits as it does."""
    path = f"/node/vnfs/{quote(graph_id, safe='')}/{quote(vnf_id, safe='')}/exec"
    text = sys.stdin.read() if stdin else ""
    body = json.dumps({"command": command, "stdin": text, "timeout_s": timeout}).encode()
    done = NodeClient.of(rundir).request("POST", path, body).json()
    if as_json:
        typer.echo(json.dumps(done, indent=2))
        return
    for stream, said in ((sys.stdout, done["stdout"]), (sys.stderr, done["stderr"])):
        stream.write(_harmless(said) if stream.isatty() else said)
    if done["truncated"]:
        sys.stderr.write("headrace: its output was longer; the rest is dropped\n")
    if done["exit_code"] is None:
        fail(f"it was killed after {timeout:g} s")
    sys.exit(done["exit_code"] if done["exit_code"] >= 0 else 128 - done["exit_code"])


def _print(
    client: NodeClient,
    graph_id: str,
    vnf_id: str,
    what: str,
    lines: int,
    follow: bool,
    as_json: bool,
) -> None:
    path = f"/node/vnfs/{quote(graph_id, safe='')}/{quote(vnf_id, safe='')}/{what}"
    answer = client.request("GET", f"{path}?lines={lines}")
    _show(answer, as_json)
    while follow:
        time.sleep(_FOLLOW_S)
        offset = answer.headers["x-log-offset"]
        answer = client.request("GET", f"{path}?offset={offset}")
        if answer.text:
            _show(answer, as_json)


def _show(answer: httpx.Response, as_json: bool) -> None:
    """Prints a piece of a log: as text, or as a line of JSON with the octet where it ends."""
    if as_json:
        typer.echo(json.dumps({"text": answer.text, "offset": int(answer.headers["x-log-offset"])}))
        return
    typer.echo(_harmless(answer.text), nl=False)


def _harmless(text: str) -> str:
    """The text without what would control the terminal: a VNF has written it."""
    return "".join(c for c in text if c in "\n\t" or c.isprintable())
