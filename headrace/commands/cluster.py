# SPDX-License-Identifier: Apache-2.0
"""`headrace cluster`: service graphs over the nodes of a Kubernetes cluster."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def _fail(message: str) -> typer.Exit:
    Console(stderr=True).print(f"headrace cluster: {message}", markup=False, soft_wrap=True)
    return typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Adds `headrace cluster`."""
    group = typer.Typer(no_args_is_help=True, help="Service graphs over many nodes (Kubernetes).")
    app.add_typer(group, name="cluster")
    group.command("manifests")(manifests_command)
    group.command("controller")(controller_command)
    group.command("extender")(extender_command)
    group.command("openstack")(openstack_command)


def manifests_command(
    names: Annotated[list[str] | None, typer.Argument(help="Some of them; all by default.")] = None,
    as_json: AsJson = False,
) -> None:
    """Print the manifests to apply: `headrace cluster manifests | kubectl apply -f -`.

    As JSON they are one object, a List, which kubectl takes as well.
    """
    from headrace.cluster.manifests import NAMES, objects, text

    unknown = sorted(set(names or ()) - set(NAMES))
    if unknown:
        raise _fail(f"no manifest {', '.join(unknown)}; there are: {', '.join(NAMES)}")
    wanted = [name for name in NAMES if not names or name in names]
    if as_json:
        items = [one for name in wanted for one in objects(name)]
        print(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
        return
    print("---\n".join(text(name) for name in wanted), end="")


def controller_command(
    probe_every: Annotated[
        float, typer.Option(help="Seconds between two probes of a node.", min=0.05)
    ] = 1.0,
    down_after: Annotated[
        float, typer.Option(help="Seconds without an answer after which a node is lost.", min=0)
    ] = 6.0,
    up_after: Annotated[
        float,
        typer.Option(help="Seconds that a node that was lost has to answer; doubles.", min=0),
    ] = 30.0,
    most_lost: Annotated[
        float,
        typer.Option(help="Share of lost nodes above which nothing is moved.", min=0, max=1),
    ] = 0.55,
    vnis: Annotated[str, typer.Option(help="The VNIs of links, FIRST-LAST.")] = "1048576-16777215",
    liveness: Annotated[
        str | None, typer.Option(help="Where to answer probes: http://0.0.0.0:8080/healthz.")
    ] = None,
    lease: Annotated[
        str, typer.Option(help="NAMESPACE/NAME of the Lease that the active controller holds.")
    ] = "headrace/headrace-controller",
) -> None:
    """Run the controller of ServiceGraphs: in a pod, or with kubectl's configuration.

    Of several one is active, the others stand by.
    """
    import asyncio
    import logging

    from headrace.cluster.controller.driver import Pace
    from headrace.cluster.controller.operator import NotActive, run
    from headrace.cluster.core.health import HoldDown
    from headrace.cluster.core.settings import Settings
    from headrace.cluster.core.vnis import Vnis

    first, _, last = vnis.partition("-")
    try:
        numbers = int(first), int(last)
        Vnis(*numbers)
    except ValueError as error:
        raise _fail(f"--vnis {vnis!r}: write FIRST-LAST, within 1 to 16777215") from error
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    settings = Settings(
        hold=HoldDown(down_s=down_after, up_s=up_after),
        most_lost=most_lost,
        first_vni=numbers[0],
        last_vni=numbers[1],
    )
    namespace, _, name = lease.partition("/")
    if not namespace or not name:
        raise _fail(f"--lease {lease!r}: write NAMESPACE/NAME")
    held = namespace, name
    try:
        asyncio.run(run(settings, Pace(probe_s=probe_every), liveness, lease=held))
    except NotActive as error:
        raise _fail(str(error)) from error


def extender_command(
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="TCP port.", min=1, max=65535)] = 8888,
    certificate: Annotated[Path | None, typer.Option(help="PEM; with it, TLS.")] = None,
    key: Annotated[Path | None, typer.Option(help="PEM, of the certificate.")] = None,
    every: Annotated[float, typer.Option(help="Seconds between readings.", min=0.1)] = 2.0,
) -> None:
    """Serve kube-scheduler: filter and prioritize nodes for pods that are VNFs, by cost."""
    import asyncio

    import uvicorn

    from headrace.cluster.controller.kube import KubernetesCluster
    from headrace.cluster.scheduling.extender import app_of
    from headrace.cluster.scheduling.service import Scores

    if (certificate is None) != (key is None):
        raise _fail("--certificate and --key belong together: give both or none")

    async def serve() -> None:
        cluster = await KubernetesCluster.connect()
        scores = Scores(cluster, every)
        reading = asyncio.create_task(scores.run())
        try:
            config = uvicorn.Config(
                app_of(scores),
                host=host,
                port=port,
                ssl_certfile=certificate,
                ssl_keyfile=key,
                log_level="warning",
            )
            await uvicorn.Server(config).serve()
        finally:
            reading.cancel()
            await cluster.close()

    asyncio.run(serve())


def openstack_command(
    url: Annotated[str, typer.Argument(help="Placement's address, with its path.")],
    token: Annotated[str, typer.Option(envvar="OS_TOKEN", help="Keystone's token.")],
    every: Annotated[float, typer.Option(help="Seconds between readings.", min=1)] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Once, then end.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="A line of JSON for each reading that changed something.")
    ] = False,
) -> None:
    """Keep the nodes in OpenStack's Placement: what they have, and what graphs have taken."""
    import asyncio

    import httpx

    from headrace.cluster.controller.kube import KubernetesCluster
    from headrace.cluster.scheduling.openstack.providers import PlacementError, Providers
    from headrace.cluster.scheduling.service import Scores

    async def keep() -> None:
        cluster = await KubernetesCluster.connect()
        scores = Scores(cluster, every)
        try:
            async with httpx.AsyncClient(base_url=url, timeout=30) as client:
                providers = Providers(client, token)
                while True:
                    await scores.refresh()
                    done = await providers.sync(scores.nodes)
                    changed = {what: names for what, names in vars(done).items() if names}
                    if as_json and (changed or once):
                        print(json.dumps(changed), flush=True)
                    for what, names in changed.items() if not as_json else ():
                        print(f"{what}: {', '.join(names)}", flush=True)
                    if once:
                        return
                    await asyncio.sleep(every)
        except (PlacementError, httpx.HTTPError) as error:
            raise _fail(f"Placement at {url}: {error}") from error
        finally:
            await cluster.close()

    asyncio.run(keep())
