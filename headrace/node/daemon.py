# SPDX-License-Identifier: Apache-2.0
"""Bringing a node up and down from the command line; the node itself is in `serving`.

`up` without `--foreground` starts a process of its own and waits until it answers. That process
holds a lock on `<rundir>/node.lock` as long as it lives, so a second one never touches the same
switch, and says in `<rundir>/node.json` who it is and where it listens.
"""

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from headrace.machine.patience import patient
from headrace.machine.places import (
    database,
    default_statedir,
    image_directory,
    link_state,
    log_directory,
    remove_database,
    state_of,
    unpacked_directory,
)
from headrace.machine.processes import ProcessId, gone, make_private, write_atomically
from headrace.node.config import NodeConfig
from headrace.node.errors import ConfigError, NodeError

_START_PATIENCE_S = 60.0
_STOP_PATIENCE_S = 30.0


def node_file(rundir: Path) -> Path:
    """Where a running node says who it is."""
    return rundir / "node.json"


def socket_of(rundir: Path) -> Path:
    """The Unix socket of a running node's REST API."""
    return rundir / "api.sock"


def running(rundir: Path) -> dict[str, Any] | None:
    """`{"pid", "start_ticks", "url"}` of the node that serves `rundir`, or None."""
    try:
        said: dict[str, Any] = json.loads(node_file(rundir).read_text())
        process = ProcessId(said["pid"], said["start_ticks"])
    except (OSError, ValueError, KeyError):
        return None
    return said if process.alive() else None


def up(config: NodeConfig, rundir: Path, statedir: Path | None = None) -> str:
    """Starts a node in the background; returns its URL when it answers.

    `statedir` is where it keeps database and logs (machine/places.py).

    Raises:
        NodeError: it does not start; the text is the node's own last words.
    """
    already = running(rundir)
    if already is not None:
        raise ConfigError(
            "node",
            f"a node already runs at {already['url']} (pid {already['pid']}); "
            f"run `headrace down` first, or choose another --rundir",
        )
    prepare(rundir, statedir)
    write_atomically(rundir / "node-config.json", config.model_dump_json())
    log = log_directory(rundir) / "node.log"
    begin = log.stat().st_size if log.exists() else 0
    command = [sys.executable, "-m", "headrace.node", str(rundir)]
    with log.open("ab") as output:
        pid = os.posix_spawn(
            sys.executable,
            command,
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 1),
                (os.POSIX_SPAWN_DUP2, output.fileno(), 2),
            ],
            setsid=True,
        )
    patience_s = patient(_START_PATIENCE_S)
    deadline = time.monotonic() + patience_s
    while time.monotonic() < deadline:
        ended, _ = os.waitpid(pid, os.WNOHANG)
        said = running(rundir)
        if ended:
            raise NodeError("node", _last_words(log, begin))
        if said is not None and said["pid"] == pid:
            with contextlib.suppress(httpx.HTTPError):
                transport = httpx.HTTPTransport(uds=said["socket"])
                with httpx.Client(transport=transport, timeout=5) as client:
                    client.get("http://localhost/node").raise_for_status()
                return str(said["url"])
        time.sleep(0.05)
    os.kill(pid, signal.SIGTERM)
    raise NodeError("node", f"the node does not answer after {patience_s:.0f} s; see {log}")


def prepare(rundir: Path, statedir: Path | None) -> None:
    """Makes the node's directories, and finds its state where an earlier version has kept it.

    Raises:
        ConfigError: `statedir` is not where a running switch's node has its state.
    """
    make_private(rundir)
    kept = state_of(rundir)
    statedir = (statedir or (kept if kept != rundir else default_statedir(rundir))).absolute()
    earlier = database(rundir)
    make_private(statedir)
    link_state(rundir, statedir)
    if earlier != database(rundir) and earlier.exists():
        if database(rundir).exists():
            link_state(rundir, earlier.parent)
            raise ConfigError(
                "node",
                f"both {earlier.parent} and {statedir} hold the state of a node; run `headrace "
                f"down` first, or choose another --statedir",
            )
        # Only now: it loads what no other command needs.
        from headrace.node.deployment.schema import move_database

        move_database(earlier, database(rundir))
    make_private(log_directory(rundir))


def _last_words(log: Path, begin: int) -> str:
    text = log.read_bytes()[begin:].decode(errors="replace").strip()
    return text.splitlines()[-1].removeprefix("headrace: ") if text else f"it ended; see {log}"


def down(rundir: Path) -> list[str]:
    """Ends the node of `rundir` and everything it has started, and removes all of it but the logs.

    Logs in a `statedir` of its own stay. Returns the names of what was ended; nothing if there was
    no node.
    """
    ended = []
    said = running(rundir)
    if said is not None:
        process = ProcessId(said["pid"], said["start_ticks"])
        process.signal(signal.SIGTERM)
        if not asyncio.run(gone(process, patient(_STOP_PATIENCE_S))):
            process.signal(signal.SIGKILL)
            asyncio.run(gone(process, patient(_STOP_PATIENCE_S)))
        ended.append("node")
    if not rundir.is_dir():
        return ended
    ours = database(rundir).exists() or (rundir / "node-config.json").exists()
    if not ours:
        if any(rundir.iterdir()):
            text = f"{rundir} is not the directory of a node; nothing was removed"
            raise ConfigError("node", text)
        return ended
    # Only now: the drivers and engines take a while to load, and other commands need none of them.
    from headrace.node.tear_down import tear_down

    ended += asyncio.run(tear_down(rundir.resolve()))
    remove_database(database(rundir))
    for images in (image_directory(rundir), unpacked_directory(rundir)):
        shutil.rmtree(images, ignore_errors=True)
    shutil.rmtree(rundir)
    return ended
