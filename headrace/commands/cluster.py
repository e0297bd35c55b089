# SPDX-License-Identifier: Apache-2.0
"""`headrace cluster`: service graphs over the nodes of a Kubernetes cluster."""

from typing import Annotated

import typer
from rich.console import Console


def _fail(message: str) -> typer.Exit:
    Console(stderr=True).print(f"headrace cluster: {message}", markup=False, soft_wrap=True)
    return typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Adds `headrace cluster`."""
    group = typer.Typer(no_args_is_help=True, help="Service graphs over many nodes (Kubernetes).")
    app.add_typer(group, name="cluster")

    @group.command("manifests")
    def manifests_command(
        names: Annotated[
            list[str] | None, typer.Argument(help="Some of them; all by default.")
        ] = None,
    ) -> None:
        """Print the manifests to apply: `headrace cluster manifests | kubectl apply -f -`."""
        from headrace.cluster.manifests import NAMES, text

        unknown = sorted(set(names or ()) - set(NAMES))
        if unknown:
            raise _fail(f"no manifest {', '.join(unknown)}; there are: {', '.join(NAMES)}")
        wanted = [name for name in NAMES if not names or name in names]
        print("---\n".join(text(name) for name in wanted), end="")
