# SPDX-License-Identifier: Apache-2.0
"""`headrace bench nfvbench | vsperf`: measurements by the words of these suites."""

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from headrace.bench.errors import DeviceError, ScenarioError
from headrace.commands import family
from headrace.commands.bench import RESULTS
from headrace.results.store import Store, StoreError

if TYPE_CHECKING:
    from headrace.bench.scenario import Scenario

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")]
SwitchOption = Annotated[str, typer.Option(help="headrace, ovs-dpdk, ovs-netdev, linux-bridge.")]
PortsOption = Annotated[
    str, typer.Option(help="vhost-user, memif, veth, or in-process (one direction).")
]
SizesOption = Annotated[
    list[str] | None,
    typer.Option("--frame-size", "-fs", help="Bytes with FCS or IMIX; may be repeated."),
]
MinutesOption = Annotated[float, typer.Option(help="Time budget after set-up.")]
SimulateOption = Annotated[bool, typer.Option(help="Simulated devices; no nodes.")]
ResultsOption = Annotated[Path, typer.Option("--results", help="The results database.")]


def _measured(
    scenario: "Scenario", minutes: float, simulate: bool, results: Path, as_json: bool
) -> None:
    """Measures one scenario and prints it; exits 1 with the reason if nothing was measured."""
    from headrace.bench.console import ConsoleProgress, make_console
    from headrace.bench.lacking import lacks
    from headrace.bench.session import Options, measure
    from headrace.bench.tables import print_tables
    from headrace.results.summary import json_rows

    options = Options(minutes=minutes, rounds=1, simulate=simulate)
    reasons = list(dict.fromkeys(lacks(scenario, options.plan).values()))
    if reasons:
        raise DeviceError("; ".join(reasons))
    console = make_console(as_json)
    with Store(results) as store:
        with ConsoleProgress(console) as progress:
            number = asyncio.run(measure([scenario], store, options, progress))
        told = json_rows(store, number)
        if as_json:
            print(json.dumps(told))
        else:
            print_tables(console, store, number)
            console.print(f"campaign {number} in {results}", highlight=False)
    if not told["rows"]:
        raise typer.Exit(1)


def _failed(error: Exception) -> typer.Exit:
    Console(stderr=True).print(f"headrace: {error}", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(1)


def _subject(switch: str, ports: str, engine: str = "") -> dict[str, str]:
    kernel = switch in ("linux-bridge", "ovs-netdev", "ovs-kernel")
    made = {"switch": switch, "ports": "veth" if kernel else ports}
    if kernel:
        return {**made, "engine": "native", "function": "bridge"}
    return {**made, "engine": engine} if engine else made


def register(app: typer.Typer) -> None:
    """Adds the commands to `headrace bench`."""
    group = family(app, "bench")

    @group.command("nfvbench")
    def nfvbench_command(
        chain: Annotated[
            str,
            typer.Option("--chain", "--service-chain", "-sc", help="PVP, PVVP, or EXT (no VNF)."),
        ] = "PVP",
        count: Annotated[
            int, typer.Option("--service-chain-count", "-scc", help="Chains side by side.", min=1)
        ] = 1,
        flow_count: Annotated[str, typer.Option("--flow-count", "-fc", help="In all.")] = "10k",
        frame_size: SizesOption = None,
        rate: Annotated[
            str, typer.Option(help="ndr, pdr, ndr_pdr, or a fixed one such as 500kpps.")
        ] = "ndr_pdr",
        duration: Annotated[
            float | None, typer.Option(help="Seconds of final trials; short ones by default.")
        ] = None,
        unidir: Annotated[bool, typer.Option("--unidir", help="One direction only.")] = False,
        switch: SwitchOption = "headrace",
        ports: PortsOption = "vhost-user",
        engine: Annotated[str, typer.Option(help="process, container or vm.")] = "process",
        minutes: MinutesOption = 8.0,
        simulate: SimulateOption = False,
        results: ResultsOption = RESULTS,
        as_json: JsonOption = False,
    ) -> None:
        """NFVbench's one line: NDR (0.001 % lost) and PDR (0.1 %) of a chain, both ways."""
        from headrace.bench.other_suites import count_of, nfvbench

        try:
            scenario = nfvbench(
                chain,
                _subject(switch, ports, engine),
                count=count,
                flows=count_of(flow_count),
                sizes=frame_size or ["64"],
                rate=rate,
                duration_s=duration,
                both_ways=not unidir and ports != "in-process",
            )
            _measured(scenario, minutes, simulate, results, as_json)
        except (ScenarioError, StoreError, DeviceError) as error:
            raise _failed(error) from error

    @group.command("vsperf")
    def vsperf_command(
        case: Annotated[
            str, typer.Argument(help="p2p, pvp, pvvp<n>, pvpv<n>; with _tput, _cont, _back2back.")
        ],
        frame_size: SizesOption = None,
        switches: Annotated[
            str, typer.Option(help="headrace, ovs-dpdk and others, by comma.")
        ] = "headrace,ovs-dpdk",
        ports: PortsOption = "vhost-user",
        minutes: MinutesOption = 8.0,
        simulate: SimulateOption = False,
        results: ResultsOption = RESULTS,
        as_json: JsonOption = False,
    ) -> None:
        """One of VSPERF's deployments or test cases, switches side by side."""
        from headrace.bench.other_suites import vsperf

        try:
            named = [name.strip() for name in switches.split(",") if name.strip()]
            subjects = [_subject(name, ports) for name in named]
            scenario = vsperf(case, subjects, frame_size or [])
            _measured(scenario, minutes, simulate, results, as_json)
        except (ScenarioError, StoreError, DeviceError) as error:
            raise _failed(error) from error
