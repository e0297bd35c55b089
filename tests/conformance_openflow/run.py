# SPDX-License-Identifier: Apache-2.0
"""Runs os-ken's OpenFlow 1.3 switch tests: `python -m tests.conformance_openflow.run --help`.

Needs root. Everything runs in a network namespace and a directory of its own. Exits 0 if all of the
chosen tests passed, 1 if any failed, 2 if the run itself did not work, 3 if it ended by --seconds
with tests left.
"""

from __future__ import annotations

import argparse
import ctypes
import fnmatch
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.conformance_openflow import results, suite
from tests.conformance_openflow.results import Records
from tests.conformance_openflow.sockets import PacketSockets
from tests.conformance_openflow.topology import TESTER_CONTROL, topology

CLONE_NEWNET = 0x40000000
STANDSTILL_S = 90  # the longest test sends for 30 s
TELL_S = 30  # between two lines of progress where there is no terminal


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=("headrace", "ovs"), default="headrace")
    parser.add_argument(
        "--subset", action="store_true", help="first and last test of each file, no throughput"
    )
    parser.add_argument(
        "--only",
        choices=results.GROUPS,
        nargs="+",
        metavar="GROUP",
        help="only these groups: %(choices)s",
    )
    parser.add_argument("--match", metavar="GLOB", help="only files such as 'match: 34_*'")
    parser.add_argument("--test", metavar="GLOB", help="only tests with such a description")
    parser.add_argument(
        "--records",
        type=Path,
        metavar="FILE",
        help="keep outcomes there as they come; a run with the same file does the rest",
    )
    parser.add_argument(
        "--again", action="store_true", help="with --records: first forget those that failed"
    )
    parser.add_argument(
        "--seconds", type=float, metavar="S", help="begin no test later; use with --records"
    )
    parser.add_argument(
        "--throughput-seconds",
        type=float,
        metavar="S",
        help="shorten the throughput tests (30 s each as shipped)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes there")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser.parse_args()


def own_network() -> None:
    """Moves this process into a new network namespace, without IPv6 chatter."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"unshare: {os.strerror(number)}; run as root")
    for scope in ("all", "default"):
        setting = Path(f"/proc/sys/net/ipv6/conf/{scope}/disable_ipv6")
        if setting.exists():
            setting.write_text("1")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def free_port() -> int:
    """A TCP port that nobody uses in this namespace."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def choose(options: argparse.Namespace) -> list[suite.Case]:
    """The tests that the command line wants."""
    cases = suite.load()
    if options.subset:
        cases = suite.representative(cases)
    if options.only:
        cases = [case for case in cases if case.group in options.only]
    if options.match:
        cases = [case for case in cases if fnmatch.fnmatch(case.file, options.match)]
    if options.test:
        cases = [case for case in cases if fnmatch.fnmatch(case.name, options.test)]
    return cases


def execute(
    options: argparse.Namespace, cases: list[suite.Case], records: Records, rundir: Path
) -> int:
    """Runs the tester over `cases`; its exit code."""
    port = free_port()
    wanted: dict[str, list[str]] = {}
    for case in cases:
        wanted.setdefault(case.file, []).append(case.name)
    config = rundir / "tester.json"
    config.write_text(
        json.dumps(
            {
                "port": port,
                "dir": str(suite.DIRECTORY),
                "results": str(records.path),
                "tests": wanted,
                "seconds": options.seconds,
                "tester_control": str(rundir / TESTER_CONTROL),
                "throughput_seconds": options.throughput_seconds,
            }
        )
    )
    log = rundir / "tester.log"
    controller = f"tcp:127.0.0.1:{port}"
    with topology(options.target, rundir, controller) as sockets, log.open("w") as output:
        app = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance_openflow.tester_app", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            follow(app, cases, records, sockets, options.quiet)
        finally:
            app.terminate()
            app.wait()
            if lost := sockets.lost():
                sys.stderr.write(f"Open vSwitch's sockets lost {lost} frames during this run\n")
    if app.returncode != 0:
        sys.stderr.write("\n".join(log.read_text().splitlines()[-30:]) + "\n")
    return app.returncode


def follow(
    app: subprocess.Popen[bytes],
    cases: list[suite.Case],
    records: Records,
    sockets: PacketSockets,
    quiet: bool,
) -> None:
    """Waits for the tester, says how far it is and what fails; gives up when it stands still.

    With what fails it says what Open vSwitch's sockets lost since something else failed.
    """
    began = since = told = time.monotonic()
    done = lost = 0
    failed: set[results.Outcome] = set()
    while app.poll() is None:
        time.sleep(0.5)
        now = time.monotonic()
        outcomes = records.outcomes(cases)
        for outcome in outcomes:
            if not outcome.ok and outcome not in failed:
                failed.add(outcome)
                before, lost = lost, sockets.lost()
                sys.stderr.write(f"\rFAILED {outcome} (frames the sockets lost: {lost - before})\n")
        if len(outcomes) != done:
            done, since = len(outcomes), now
        elif now - since > STANDSTILL_S:
            sys.stderr.write(f"no test ended in {STANDSTILL_S} s; giving up\n")
            return
        state = f"{done}/{len(cases)}, {len(failed)} failed, {now - began:.0f} s"
        if quiet:
            continue
        if sys.stderr.isatty():
            sys.stderr.write(f"\r{state}")
        elif now - told > TELL_S:
            told = now
            sys.stderr.write(f"{state}\n")
        sys.stderr.flush()


def conclude(
    options: argparse.Namespace, cases: list[suite.Case], records: Records, code: int
) -> int:
    """Shows and writes what came of it; the exit status."""
    outcomes = records.outcomes(cases)
    sys.stdout.write("".join(f"FAILED {one}\n" for one in outcomes if not one.ok))
    sys.stdout.write(results.table(cases, outcomes) + "\n")
    if options.json:
        options.json.write_text(results.to_json(options.target, cases, outcomes))
    if code != 0 or not outcomes:
        return 2
    if len(outcomes) != len(cases):
        return 3
    return 0 if all(one.ok for one in outcomes) else 1


def main() -> int:
    """Runs what the command line wants; the exit status."""
    options = arguments()
    cases = choose(options)
    if not cases:
        sys.stderr.write("no test matches\n")
        return 2
    # So that an interrupted run stops what it started.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    own_network()
    with tempfile.TemporaryDirectory(prefix="headrace-conformance-") as directory:
        records = Records(options.records or Path(directory) / "records.jsonl", options.target)
        if options.again:
            records.forget_failures(cases)
        left = [case for case in cases if records.outcome(case) is None]
        code = execute(options, left, records, Path(directory)) if left else 0
        return conclude(options, cases, records, code)


if __name__ == "__main__":
    sys.exit(main())
