# SPDX-License-Identifier: Apache-2.0
"""Logs and consoles stay within their bounds, while processes write to them."""

import asyncio
import os
import sys
from pathlib import Path

from headrace.machine.processes import Supervisor
from headrace.node.logs import COPIES, LogKeeper, bound_console, bound_log, forget_oldest, tail

LIMIT = 1000


def test_a_long_log_is_put_aside(tmp_path: Path) -> None:
    file = tmp_path / "a.log"
    for number in range(COPIES + 2):
        file.write_text(f"{number}" * (LIMIT + 1))
        assert bound_log(file, LIMIT)
        assert file.read_text() == ""
    kept = [file.with_name(f"a.log.{n}").read_text()[0] for n in range(1, COPIES + 1)]
    assert kept == ["4", "3", "2"]
    assert len(list(tmp_path.iterdir())) == COPIES + 1
    file.write_text("short")
    assert not bound_log(file, LIMIT)


async def test_a_process_that_writes_all_the_time(rundir: Path) -> None:
    script = "while True: print('a line of the log', flush=True)"
    supervisor = Supervisor(rundir)
    keeper = LogKeeper(rundir / "log", 1 << 20, names=lambda: ["loud"], consoles=list)
    await supervisor.ensure("loud", [sys.executable, "-c", script])
    try:
        log = supervisor.log_of("loud")
        async with asyncio.timeout(60):
            for _ in range(3):
                while log.stat().st_size < 1 << 20:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
                before = log.stat().st_size
                await asyncio.to_thread(keeper._look, ["loud"], [])
                assert log.stat().st_size < before
        # It appends: after a cut it writes at the beginning, not where it was before.
        assert log.read_bytes()[:1] in (b"", b"a", b"l", b" ", b"i", b"n", b"e", b"o", b"\n")
    finally:
        await supervisor.end("loud")
    assert log.with_name("loud.log.3").exists()


def test_the_logs_of_what_has_ended_are_kept_up_to_a_number(tmp_path: Path) -> None:
    for number in range(5):
        file = tmp_path / f"{number}.log"
        file.write_text("x")
        os.utime(file, (number, number))
    (tmp_path / "0.log.1").write_text("x")
    gone = forget_oldest(tmp_path, used=["1"], kept=2)
    assert sorted(file.name for file in gone) == ["0.log", "2.log"]
    assert sorted(file.name for file in tmp_path.iterdir()) == ["1.log", "3.log", "4.log"]


def test_a_console_is_emptied_but_nothing_that_it_points_to(tmp_path: Path) -> None:
    console, precious = tmp_path / "console", tmp_path / "precious"
    precious.write_text("x" * (LIMIT + 1))
    console.symlink_to(precious)
    assert not bound_console(console, LIMIT)
    console.unlink()
    os.link(precious, console)
    assert not bound_console(console, LIMIT)
    console.unlink()
    os.mkfifo(console)
    assert not bound_console(console, LIMIT)
    console.unlink()
    assert not bound_console(console, LIMIT)
    console.write_text("x" * LIMIT)
    assert not bound_console(console, LIMIT)
    console.write_text("x" * (LIMIT + 1))
    assert bound_console(console, LIMIT) and console.read_text() == ""
    assert precious.read_text() == "x" * (LIMIT + 1)


def test_the_end_of_a_log_and_what_comes_after(tmp_path: Path) -> None:
    file = tmp_path / "x.log"
    assert tail(file, 5) == ("", 0)
    file.write_bytes(b"one\ntwo\nthr\xffee\n")
    assert tail(file, 2) == ("two\nthr\ufffdee\n", 15)
    assert tail(file, 0) == ("", 15)
    with file.open("ab") as more:
        more.write(b"four")
    assert tail(file, 5, 15) == ("four", 19) and tail(file, 5, 19) == ("", 19)
    file.write_bytes(b"new")  # it was cut meanwhile
    assert tail(file, 5, 19) == ("new", 3)
    file.write_bytes(b"x" * (3 << 20))
    text, end = tail(file, 5)
    assert (len(text), end) == (1 << 20, 3 << 20)
    assert tail(file, 5, 0)[1] == 1 << 20


def test_a_console_that_leads_elsewhere_is_not_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    linked, hard, pipe = (tmp_path / name for name in ("linked", "hard", "pipe"))
    linked.symlink_to(secret)
    os.link(secret, hard)
    os.mkfifo(pipe)
    for file in (linked, hard, pipe, tmp_path):
        assert tail(file, 5) == ("", 0)
