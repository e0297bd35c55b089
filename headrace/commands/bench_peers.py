# SPDX-License-Identifier: Apache-2.0
"""`headrace bench peers | updates | adversary`: Headrace compared with OVS-DPDK and l3fwd.

And `headrace bench builds`: compared with another build.
"""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from headrace.commands import family

if TYPE_CHECKING:
    from headrace.bench.peers.suites import Say
    from headrace.bench.rows import Row

Suite = Callable[["Say"], tuple[list["Row"], dict[str, Any]]]

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]
SimdOption = typer.Option(help="What that build's --simd is told.")
OnlyOption = Annotated[
    str, typer.Option(help="Cases whose name holds one of these words, by comma.")
]
RepeatsOption = Annotated[int, typer.Option(help="Windows of each system and case.", min=1)]
SecondsOption = Annotated[float, typer.Option(help="Length of a window.", min=0.1)]


def _print(measure: Suite, as_json: bool) -> None:
    """Measures and prints; exits 1 with the reason if any of the figures can't be taken."""
    from headrace.bench.peers.openflow import Refused
    from headrace.bench.peers.systems import PeerError
    from headrace.bench.rows import emit

    console = Console(stderr=True)
    try:
        rows, manifest = measure(lambda line: console.print(line, highlight=False))
    except (PeerError, Refused, OSError) as error:
        console.print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
        raise typer.Exit(1) from error
    emit(rows, manifest, as_json=as_json)
    if any(row.value is None for row in rows):
        raise typer.Exit(1)


def register(app: typer.Typer) -> None:
    """Adds the commands to `headrace bench`."""
    module = family(app, "bench")

    @module.command("peers")
    def peers_command(
        only: OnlyOption = "",
        repeats: RepeatsOption = 7,
        seconds: SecondsOption = 0.8,
        as_json: JsonOption = False,
    ) -> None:
        """Rates and ratios to OVS-DPDK's best cache setting and to l3fwd, case by case."""
        from headrace.bench.peers import suites
        from headrace.bench.peers.compare import Plan

        plan = Plan(repeats=repeats, window_s=seconds)
        _print(lambda say: suites.run_peers(plan, only, say), as_json)

    @module.command("updates")
    def updates_command(
        repeats: RepeatsOption = 7, seconds: SecondsOption = 0.8, as_json: JsonOption = False
    ) -> None:
        """Flow-mods per second, time to effect, loss under churn of rules, ports and LSIs."""
        from headrace.bench.peers import update_suite
        from headrace.bench.peers.compare import Plan

        plan = Plan(repeats=repeats, window_s=seconds)
        _print(lambda say: update_suite.run_updates(plan, say), as_json)

    @module.command("adversary")
    def adversary_command(
        repeats: RepeatsOption = 25, seconds: SecondsOption = 0.25, as_json: JsonOption = False
    ) -> None:
        """Goodput of honest flows before and under attacks on caches and tuple spaces."""
        from headrace.bench.peers import suites
        from headrace.bench.peers.compare import Plan

        plan = Plan(repeats=repeats, window_s=seconds)
        _print(lambda say: suites.run_adversary(plan, say), as_json)

    @module.command("builds")
    def builds_command(
        before: Annotated[Path, typer.Option(help="Folder of programs, or a build folder.")],
        after: Annotated[Path, typer.Option(help="The same of the other build.")],
        before_simd: Annotated[str, SimdOption] = "auto",
        after_simd: Annotated[str, SimdOption] = "auto",
        only: OnlyOption = "",
        pairs: Annotated[int, typer.Option(help="Pairs of windows for each case.", min=1)] = 36,
        starts: Annotated[
            int, typer.Option(help="How often both are started, for pairs in each.", min=1)
        ] = 6,
        seconds: SecondsOption = 0.12,
        goal: Annotated[float, typer.Option(help="What after/before is to reach.")] = 0.98,
        as_json: JsonOption = False,
    ) -> None:
        """Compare two builds of headrace-switch on the cases of `bench peers`."""
        from headrace.bench.peers import builds

        sides = builds.Build(before, before_simd), builds.Build(after, after_simd)
        _print(
            lambda say: builds.run_builds(
                *sides,
                builds.plan_of(builds.pairs_of_a_start(pairs, starts), seconds),
                starts,
                only,
                goal,
                say,
            ),
            as_json,
        )
