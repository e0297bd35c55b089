# SPDX-License-Identifier: Apache-2.0
"""`headrace conformance list | run`: the 26 tests of a Universal Node (UNIFY D5.6)."""

import asyncio
import dataclasses
import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from headrace.client import CACERT_VARIABLE, TOKEN_VARIABLE, console, fail

conformance = typer.Typer(
    no_args_is_help=True, help="The 26 tests of a Universal Node (D5.6, Annexes A to C)."
)

Only = Annotated[str, typer.Option(help="Numbers and ranges, as in 1-10,22; all by default.")]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.add_typer(conformance, name="conformance")


@conformance.command("list")
def list_command(only: Only = "", as_json: JsonOption = False) -> None:
    """Show the tests: configuration, procedure, expected result."""
    from headrace.conformance import registry
    from headrace.conformance.output.document import described

    try:
        cases = registry.chosen(only)
    except ValueError as error:
        fail(str(error))
    if as_json:
        print(json.dumps([described(case) for case in cases], indent=2))
        return
    table = Table("test", "name", "part", "expected")
    for case in cases:
        table.add_row(str(case.number), case.name, case.part.value, case.expected)
    console().print(table)


@conformance.command("run")
def run_command(
    url: Annotated[
        str, typer.Option(help="A node that is there; by default one is brought up and taken down.")
    ] = "",
    only: Only = "",
    as_json: JsonOption = False,
    junit: Annotated[Path | None, typer.Option(help="A file for JUnit's XML.")] = None,
    html: Annotated[Path | None, typer.Option(help="A file for a page with the charts.")] = None,
    dialect: Annotated[
        str, typer.Option(help="headrace, g2, g1 or g0 (the originals); found out by default.")
    ] = "",
    datastore: Annotated[
        str, typer.Option(help="The address of an original node's datastore.")
    ] = "",
    wire: Annotated[
        list[str] | None,
        typer.Option(help="PORT=INTERFACE: the interface here that a port of the node is cabled "
                     "to. Three are enough for all tests."),
    ] = None,
    listen: Annotated[
        str, typer.Option(help="HOST:PORT that the node was told to send its description to.")
    ] = "",
    same_host: Annotated[
        bool | None,
        typer.Option(help="Whether the node runs on this machine; by default if its address is of "
                     "the loopback interface."),
    ] = None,
    template: Annotated[
        list[str] | None,
        typer.Option(help="A template of the node that passes packets, for an engine (Test 16)."),
    ] = None,
    passing: Annotated[
        str, typer.Option(help="The template of the VNF that passes packets.")
    ] = "pass",
    computing: Annotated[str, typer.Option(help="That of Test 23.")] = "cpu",
    remembering: Annotated[str, typer.Option(help="That of Test 24.")] = "memory",
    duration: Annotated[
        float, typer.Option(help="Seconds of each load of tests 22 to 26.", min=0.02)
    ] = 0.1,
    rules: Annotated[int, typer.Option(help="The most rules of Test 25.", min=1)] = 1000,
    graphs: Annotated[int, typer.Option(help="The most graphs of Test 26.", min=1)] = 50,
    token: Annotated[str | None, typer.Option(envvar=TOKEN_VARIABLE, hidden=True)] = None,
    cacert: Annotated[Path | None, typer.Option(envvar=CACERT_VARIABLE, hidden=True)] = None,
) -> None:  # fmt: skip
    """Run the tests; exit 1 if one fails."""
    from headrace.conformance import registry
    from headrace.conformance.dialects import DIALECTS
    from headrace.conformance.given import Address, GivenBed
    from headrace.conformance.own import OwnBed
    from headrace.conformance.runner import Bed
    from headrace.conformance.target import Settings, Unavailable

    try:
        cases = registry.chosen(only)
    except ValueError as error:
        fail(str(error))
    if dialect and dialect not in DIALECTS:
        fail(f"--dialect: {dialect!r} is none of {', '.join(DIALECTS)}")
    for file in (junit, html):
        if file is not None and not file.absolute().parent.is_dir():
            fail(f"{file}: there is no such folder")
    settings = Settings(
        duration_s=duration, rules=rules, graphs=graphs, passing=passing, computing=computing,
        remembering=remembering,
    )  # fmt: skip
    bed: Bed = OwnBed(settings)
    if url:
        address = Address(
            url=url, token=token, cacert=cacert, dialect=dialect, datastore=datastore or None,
            wires=_wires(wire or []), listen=_listen(listen), same_host=same_host,
            templates=tuple(template or []),
        )  # fmt: skip
        bed = GivenBed(address, settings)
    elif any((dialect, datastore, wire, listen, template)) or same_host is not None:
        fail("--dialect, --datastore, --wire, --listen, --template, --same-host are for --url")
    try:
        failed = asyncio.run(_run(bed, cases, url, as_json, junit, html))
    except Unavailable as error:
        fail(str(error))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    if failed:
        raise SystemExit(1)


def _wires(options: list[str]) -> dict[str, str]:
    wires = {}
    for option in options:
        port, equals, interface = option.rpartition("=")
        if not (port and equals and interface):
            fail(f"--wire: {option!r} is no PORT=INTERFACE")
        wires[port] = interface
    return wires


def _listen(text: str) -> tuple[str, int] | None:
    if not text:
        return None
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        fail(f"--listen: {text!r} is no HOST:PORT")
    return host.strip("[]"), int(port)


def _write(file: Path | None, text: Callable[[], str]) -> None:
    if file is None:
        return
    try:
        file.write_text(text())
    except OSError as error:
        fail(f"{file}: {error.strerror}")


async def _run(
    bed: Any, cases: Any, url: str, as_json: bool, junit_file: Path | None, html_file: Path | None
) -> bool:
    from headrace.conformance import runner
    from headrace.conformance.case import Verdict
    from headrace.conformance.output.document import document, manifest_of, summary
    from headrace.conformance.output.html import page
    from headrace.conformance.output.junit import junit

    task = asyncio.current_task()
    assert task is not None
    # What was brought up is taken down then, too.
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    progress = Console(stderr=True)
    results = []

    def tell(case: Any) -> None:
        progress.print(f"{case.number}: {case.name}", markup=False, highlight=False)

    information: Any = None
    ended = False
    try:
        async for result in runner.run(bed, cases, tell):
            results.append(result)
            line = f"{result.case.number}: {result.verdict.value} after {result.seconds:.1f} s"
            progress.print(f"{line}  {result.reason}".rstrip(), markup=False, highlight=False)
            information = result.information or information
    except asyncio.CancelledError:
        ended = True
        task.uncancel()  # what there is until now is told
    results.sort(key=lambda each: each.case.number)
    manifest = manifest_of(url or "a node of the tests' own", information)
    _write(junit_file, lambda: junit(results))
    _write(html_file, lambda: page(results, manifest))
    if as_json:
        print(json.dumps(document(results, manifest), indent=2, default=dataclasses.asdict))
    else:
        table = Table("test", "name", "verdict", "s", "reason")
        for each in results:
            table.add_row(str(each.case.number), each.case.name, each.verdict.value,
                          f"{each.seconds:.1f}", Text(each.reason))  # fmt: skip
        shown = console()
        shown.print(table)
        counts = summary(results).items()
        shown.print(", ".join(f"{count} {verdict}" for verdict, count in counts))
    if ended:
        raise SystemExit(143)
    return any(each.verdict == Verdict.FAIL for each in results)
