# SPDX-License-Identifier: Apache-2.0
"""`headrace traffic send | receive | ping`: packets into and out of the node's ports, by hand.

Each takes the place of whatever would be connected to the port. It runs on a control core, beside
the node; for measurements there are headrace-traffic and `headrace bench`.
"""

import asyncio
import json
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.client import DEFAULT_RUNDIR, NodeClient, Rundir, fail
from headrace.machine.programs import ProgramMissing

Port = Annotated[str, typer.Argument(help="A port of the node, as `headrace status` lists them.")]
Size = Annotated[int, typer.Option(min=64, max=1518, help="Octets of a frame, FCS included.")]
Vlan = Annotated[int | None, typer.Option(min=1, max=4094, help="The VLAN of the packets.")]
Destination = Annotated[str | None, typer.Option(help="The IPv4 destination of the packets.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Mac = Annotated[str | None, typer.Option(help="The destination address of the frames.")]

traffic = typer.Typer(no_args_is_help=True, help="Packets into and out of the node's ports.")

_LINK_S = 10.0
_AFTER_S = 5.0


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(traffic, name="traffic")


def _devargs(client: NodeClient, port: str, number: int) -> str:
    """How a DPDK program attaches to the node's port, as its device number `number`."""
    ports = {each["name"]: each["attach"] for each in client.get("/node/ports")}
    if port not in ports:
        fail(f"the node has no port {port!r}, only {', '.join(ports)}")
    attach = ports[port]
    if "devargs" in attach:
        return str(attach["devargs"]).replace("{n}", str(number))
    if "iface" in attach:
        return f"net_af_packet{number},iface={attach['iface']}"
    fail(f"port {port} is a device of its own: send from what it is cabled to")


def _control_core(client: NodeClient) -> int:
    cores = client.get("/node/resources")["cores"]
    return next(int(core["core"]) for core in cores if "control" in core["roles"])


def _run(work: Coroutine[Any, Any, None]) -> None:
    from headrace.traffic import TrafficError
    from headrace.traffic.capture import CaptureError

    try:
        asyncio.run(work)
    except (TrafficError, CaptureError, ProgramMissing) as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise SystemExit(130) from None


@traffic.command()
def ping(
    sender: Port,
    receiver: Port,
    count: Annotated[int, typer.Option(min=1, help="How many packets.")] = 5,
    size: Size = 64,
    vlan: Vlan = None,
    dst_ip: Destination = None,
    dst_mac: Mac = None,
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Send single packets into one port and wait for each at another."""
    client = NodeClient.of(rundir)
    devargs = [_devargs(client, port, number) for number, port in enumerate((sender, receiver))]

    async def work() -> None:
        from headrace.traffic import Load, StreamSpec, TrafficProcess

        async with TrafficProcess(cpu=_control_core(client), huge=False, memory_mb=64) as program:
            for name, device in zip(("a", "b"), devargs, strict=True):
                await program.add_port(name, device)
            await program.wait_links(timeout_s=_LINK_S)
            stream = StreamSpec(
                name="ping",
                tx_port="a",
                rx_port="b",
                size=size,
                vlan=vlan,
                dst_ip=dst_ip,
                dst_mac=dst_mac,
            )
            await program.configure([stream])
            arrived: list[float] = []
            for number in range(1, count + 1):
                result = await program.trial(
                    None, Load(packets=1), drain_s=_AFTER_S, yield_core=True
                )
                text = f"nothing at {receiver} within {_AFTER_S:g} s"
                if result.received:
                    time_us = (result.latency_ns.mean or 0) / 1e3
                    arrived.append(time_us)
                    text = f"{size} octets at {receiver} after {time_us:.1f} us"
                if not as_json:
                    typer.echo(f"{number}: {text}")
            if as_json:
                typer.echo(json.dumps({"sent": count, "arrived": len(arrived), "us": arrived}))
            else:
                typer.echo(f"{count} sent into {sender}, {len(arrived)} arrived at {receiver}")
            if not arrived:
                raise SystemExit(1)

    _run(work())


@traffic.command()
def send(
    port: Port,
    rate: Annotated[float, typer.Option(min=0.1, help="Packets per second.")] = 1000,
    seconds: Annotated[float, typer.Option(min=0.1, help="For how long.")] = 10,
    size: Size = 64,
    flows: Annotated[int, typer.Option(min=1, help="How many destinations, in turn.")] = 1,
    vlan: Vlan = None,
    dst_ip: Destination = None,
    dst_mac: Mac = None,
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Send UDP packets into a port."""
    client = NodeClient.of(rundir)
    device = _devargs(client, port, 0)

    async def work() -> None:
        from headrace.traffic import StreamSpec, TrafficProcess

        async with TrafficProcess(cpu=_control_core(client), huge=False, memory_mb=64) as program:
            await program.add_port("a", device)
            await program.wait_links(timeout_s=_LINK_S)
            stream = StreamSpec(
                name="send",
                tx_port="a",
                rx_port="a",
                size=size,
                flows=flows,
                vlan=vlan,
                dst_ip=dst_ip,
                dst_mac=dst_mac,
            )
            await program.configure([stream])
            result = await program.trial(seconds, rate, drain_s=0, yield_core=True)
            if as_json:
                typer.echo(json.dumps({"sent": result.sent, "unsent": result.unsent}))
                return
            typer.echo(f"{result.sent} packets sent into {port}, {result.unsent} not accepted")

    _run(work())


@traffic.command()
def receive(
    port: Port,
    seconds: Annotated[float, typer.Option(min=0.1, help="For how long.")] = 10,
    count: Annotated[int, typer.Option(min=1, help="End after so many packets.")] = 1_000_000_000,
    show: Annotated[int, typer.Option(min=0, help="How many packets to describe.")] = 10,
    write: Annotated[Path | None, typer.Option(help="A pcap file to write them to.")] = None,
    rundir: Rundir = DEFAULT_RUNDIR,
    as_json: AsJson = False,
) -> None:
    """Receive at a port: describe the first packets, count all."""
    client = NodeClient.of(rundir)
    device = _devargs(client, port, 0)

    async def work() -> None:
        from headrace.traffic.capture import capturing, described, frames

        received = 0
        shown: list[str] = []
        with tempfile.TemporaryDirectory(prefix="headrace-receive-") as place:
            file = (write or Path(place) / "received.pcap").absolute()
            file.unlink(missing_ok=True)
            async with capturing(device, _control_core(client), file):
                try:
                    async with asyncio.timeout(seconds):
                        async for frame in frames(file):
                            received += 1
                            if received <= show:
                                shown.append(described(frame))
                                if not as_json:
                                    typer.echo(shown[-1])
                            if received >= count:
                                break
                except TimeoutError:
                    pass
        if as_json:
            typer.echo(json.dumps({"received": received, "frames": shown}, indent=2))
        else:
            typer.echo(f"{received} packets received at {port}")
        if not received:
            raise SystemExit(1)

    _run(work())
