# SPDX-License-Identifier: Apache-2.0
"""`headrace switch push|pop|remember`: Headrace's experimenter actions in ovs-ofctl's syntax."""

import ipaddress
import json
from typing import Annotated

import typer

from headrace.client import fail
from headrace.commands import family
from headrace.protocols.tunnel_actions import Kind, PopTunnel, PushTunnel, Remember

KindArgument = Annotated[str, typer.Argument(help="vxlan, gre or gtpu.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def register(app: typer.Typer) -> None:
    """Adds the commands to `headrace switch`."""
    switch = family(app, "switch")
    switch.command("push")(push)
    switch.command("pop")(pop)
    switch.command("remember")(remember)


def push(
    kind: KindArgument,
    local: Annotated[str, typer.Option(help="Outer IP source.")],
    remote: Annotated[str, typer.Option(help="Outer IP destination.")],
    src_mac: Annotated[str, typer.Option(help="Outer Ethernet source.")],
    dst_mac: Annotated[str, typer.Option(help="Outer Ethernet destination: the next hop's.")],
    tunnel_id: Annotated[
        str, typer.Option("--id", help="VNI, GRE key or TEID; `flow` takes the field tunnel_id.")
    ] = "0",
    dst_port: Annotated[int, typer.Option(help="UDP's; 0: the protocol's own.")] = 0,
    checksum: Annotated[bool, typer.Option(help="Of outer UDP, or of GRE.")] = False,
    layer3: Annotated[bool, typer.Option(help="GRE: carry IP without Ethernet.")] = False,
    key: Annotated[bool, typer.Option(help="GRE: with the key field.")] = True,
    as_json: AsJson = False,
) -> None:
    """Print the action that encapsulates, for `ovs-ofctl add-flow ... actions=<this>,output:2`."""
    try:
        action = PushTunnel(
            kind=Kind.named(kind),
            local=ipaddress.ip_address(local),
            remote=ipaddress.ip_address(remote),
            src_mac=src_mac,
            dst_mac=dst_mac,
            tunnel_id=None if tunnel_id == "flow" else int(tunnel_id, 0),
            dst_port=dst_port,
            checksum=checksum,
            layer3=layer3,
            key=key,
        )
        _print(action.note(), as_json)
    except ValueError as error:
        fail(str(error))


def pop(kind: KindArgument, as_json: AsJson = False) -> None:
    """Print the action that decapsulates; go on with goto_table to match what was inside."""
    try:
        _print(PopTunnel(Kind.named(kind)).note(), as_json)
    except ValueError as error:
        fail(str(error))


def remember(
    idle: Annotated[int, typer.Option(help="Seconds after which a quiet flow is forgotten.")] = 60,
    pair: Annotated[
        int, typer.Option(help="Groups of one number remember together, flows with their answers.")
    ] = 0,
    as_json: AsJson = False,
) -> None:
    """Print the action that, in any bucket of a select group, makes the group stateful."""
    try:
        _print(Remember(idle, pair).note(), as_json)
    except ValueError as error:
        fail(str(error))


def _print(action: str, as_json: bool) -> None:
    typer.echo(json.dumps({"action": action}) if as_json else action)
