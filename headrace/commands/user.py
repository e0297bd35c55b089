# SPDX-License-Identifier: Apache-2.0
"""`headrace user ...` and `headrace login`: who may use the node's API."""

import json
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import httpx
import typer
from rich.table import Table

from headrace.client import (
    CACERT_VARIABLE,
    DEFAULT_RUNDIR,
    NodeClient,
    Rundir,
    console,
    fail,
    remote,
)

Name = Annotated[str, typer.Argument(help="The user's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Limit = Annotated[int | None, typer.Option(min=0, help="Of all graphs of the user together.")]

user = typer.Typer(no_args_is_help=True, help="Users of a node with rest.login.")


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(user, name="user")
    app.command()(login)


@user.command()
def add(
    name: Name,
    group: Annotated[str, typer.Option(help="The group; `admin` may do everything.")],
    password: Annotated[str, typer.Option(prompt=True, hide_input=True, confirmation_prompt=True)],
    max_graphs: Limit = None,
    max_cores: Limit = None,
    max_memory_mb: Limit = None,
    max_images_mb: Limit = None,
    may_exec: Annotated[bool, typer.Option(help="Run commands in VNFs of its graphs.")] = False,
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Add a user, and the group if there is none of that name."""
    client = NodeClient.of(rundir)
    if {"name": group} not in client.get("/groups")["groups"]:
        client.request("PUT", f"/groups/{quote(group, safe='')}")
    body = {
        "password": password,
        "group": group,
        "max_graphs": max_graphs,
        "max_cores": max_cores,
        "max_memory_mb": max_memory_mb,
        "max_images_mb": max_images_mb,
        "may_exec": may_exec,
    }
    client.request("POST", f"/users/{quote(name, safe='')}", json.dumps(body).encode())
    if as_json:
        shown = {key: value for key, value in body.items() if key != "password"}
        typer.echo(json.dumps({"username": name, **shown}, indent=2))


@user.command("list")
def list_users(rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """List the users."""
    users = NodeClient.of(rundir).get("/users")["users"]
    if as_json:
        typer.echo(json.dumps(users, indent=2))
        return
    table = Table("user", "group", "graphs", "cores", "MB", "MB of images")
    for each in users:
        keys = ("max_graphs", "max_cores", "max_memory_mb", "max_images_mb")
        limits = [each[key] for key in keys]
        shown = ("-" if limit is None else str(limit) for limit in limits)
        table.add_row(each["username"], each["group"], *shown)
    console().print(table)


@user.command()
def delete(name: Name, rundir: Rundir = DEFAULT_RUNDIR, as_json: AsJson = False) -> None:
    """Remove a user; the graphs stay."""
    NodeClient.of(rundir).request("DELETE", f"/users/{quote(name, safe='')}")
    if as_json:
        typer.echo(json.dumps({"deleted": name}))


def login(
    url: Annotated[str, typer.Argument(help="The node's address, https://HOST:PORT.")],
    name: Name,
    password: Annotated[str, typer.Option(prompt=True, hide_input=True)],
    cacert: Annotated[
        Path | None,
        typer.Option(envvar=CACERT_VARIABLE, help="Certificates that may sign for the node."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Log in to a node; prints the token, which other clients send as X-Auth-Token."""
    try:
        with remote(url, cacert) as client:
            body = {"username": name, "password": password}
            answer = client.post(f"{url.rstrip('/')}/login", json=body)
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        fail(f"{url}: {error}")
    if not answer.is_success:
        fail(answer.json()["message"])
    if as_json:
        typer.echo(json.dumps({"url": url.rstrip("/"), "username": name, "token": answer.text}))
        return
    typer.echo(answer.text)
