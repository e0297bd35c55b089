# SPDX-License-Identifier: Apache-2.0
"""A child process of a test: started with a log, ended by its pid, whatever the test does.

It does not outlive the test's process, even if that is killed.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from headrace.machine.processes import UNTIL_PARENT_ENDS


class Daemon:
    """One process in the foreground, its output in `log`; it gets the descriptors `inherit`."""

    def __init__(
        self, argv: Sequence[str | Path], log: Path, *, inherit: Sequence[int] = ()
    ) -> None:
        self.argv = [str(word) for word in argv]
        self.log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                [*UNTIL_PARENT_ENDS, *self.argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=inherit,
            )

    @property
    def pid(self) -> int:
        """The process's id."""
        return self._process.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while it runs."""
        return self._process.poll()

    def wait_until(self, ready: Callable[[], bool], timeout_s: float = 20.0) -> None:
        """Waits for `ready`; fails with the log's end if the process ends or time runs out."""
        end = time.monotonic() + timeout_s
        while not ready():
            if self._process.poll() is not None:
                raise AssertionError(f"{self.argv[0]} ended ({self.exit_code}):\n{self.log_tail()}")
            if time.monotonic() > end:
                raise AssertionError(f"{self.argv[0]} is not ready:\n{self.log_tail()}")
            time.sleep(0.02)

    def log_tail(self, lines: int = 40) -> str:
        """The last lines of the log."""
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def stop(self, how: signal.Signals = signal.SIGTERM, timeout_s: float = 10.0) -> int:
        """Ends the process and returns its exit code; kills it if it does not leave by itself."""
        if self._process.poll() is None:
            self._process.send_signal(how)
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"{self.argv[0]} ignored {how.name}:\n{self.log_tail()}") from None
