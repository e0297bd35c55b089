# SPDX-License-Identifier: Apache-2.0
"""Runs os-ken's OpenFlow 1.3 switch tests: `python -m tests.conformance_openflow.run --help`.

Needs root. Everything runs in a network namespace and a directory of its own. Exits 0 if all of the
chosen tests passed, 1 if any failed, 2 if the run itself did not work.
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
from tests.conformance_openflow.topology import topology

CLONE_NEWNET = 0x40000000
STANDSTILL_S = 150  # the longest test sends for 30 s, and may be repeated twice


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", choices=("headrace", "ovs"), default="headrace")
    parser.add_argument(
        "--subset", action="store_true", help="first and last test of each file, no throughput"
    )
    parser.add_argument("--match", metavar="GLOB", help="only files such as 'match: 34_*'")
    parser.add_argument(
        "--throughput-seconds",
        type=float,
        metavar="S",
        help="shorten the throughput tests (30 s each as shipped)",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all outcomes there")
    parser.add_argument("--quiet", action="store_true", help="only the table")
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
    if options.match:
        cases = [case for case in cases if fnmatch.fnmatch(case.file, options.match)]
    return cases


def execute(options: argparse.Namespace, cases: list[suite.Case], rundir: Path) -> Path:
    """Runs the tester over `cases`; returns the file of its records."""
    port = free_port()
    wanted: dict[str, list[str]] = {}
    for case in cases:
        wanted.setdefault(case.file, []).append(case.name)
    records = rundir / "records.jsonl"
    records.touch()
    config = rundir / "tester.json"
    config.write_text(
        json.dumps(
            {
                "port": port,
                "dir": str(suite.DIRECTORY),
                "results": str(records),
                "tests": wanted,
                "throughput_seconds": options.throughput_seconds,
            }
        )
    )
    log = rundir / "tester.log"
    with topology(options.target, rundir, f"tcp:127.0.0.1:{port}"), log.open("w") as output:
        app = subprocess.Popen(
            [sys.executable, "-m", "tests.conformance_openflow.tester_app", str(config)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            follow(app, records, len(cases), options.quiet)
        finally:
            app.terminate()
            app.wait()
    if app.returncode != 0:
        sys.stderr.write("\n".join(log.read_text().splitlines()[-30:]) + "\n")
    return records


def follow(app: subprocess.Popen[bytes], records: Path, tests: int, quiet: bool) -> None:
    """Waits for the tester, showing how far it is on a terminal; gives up when it stands still."""
    done, since = 0, time.monotonic()
    while app.poll() is None:
        time.sleep(0.5)
        now = records.read_text().count("\n")
        if now != done:
            done, since = now, time.monotonic()
        elif time.monotonic() - since > STANDSTILL_S:
            sys.stderr.write(f"no test ended in {STANDSTILL_S} s; giving up\n")
            return
        if not quiet and sys.stderr.isatty():
            sys.stderr.write(f"\r{done}/{tests}")
            sys.stderr.flush()


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
        outcomes = results.read(execute(options, cases, Path(directory)), cases)
    if not options.quiet:
        sys.stdout.write(results.failures(outcomes) + "\n")
    sys.stdout.write(results.table(outcomes) + "\n")
    if options.json:
        options.json.write_text(results.to_json(options.target, outcomes))
    if all(outcome.error == "did not run" for outcome in outcomes):
        return 2
    return 0 if all(outcome.ok for outcome in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
