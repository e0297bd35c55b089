# SPDX-License-Identifier: Apache-2.0
"""How a program is started as another user, in control groups, without a way back to privileges."""

from collections.abc import Iterator
from dataclasses import dataclass

from headrace.machine.programs import find_program


@dataclass(frozen=True)
class Confined:
    """The user, the groups beside their own, and the control groups' files to join by.

    headrace-confine (dataplane/confine/confine.h) does it, and says what `waits_at` and `joins`
    mean. It may lock `locked_mb` of memory, or what the node may.
    """

    user: int
    groups: tuple[int, ...] = ()
    process_files: tuple[str, ...] = ()
    waits_at: int | None = None
    locked_mb: int = 0
    joins: int | None = None

    def command(self) -> list[str]:
        """What to put before the command that is to be run so.

        Raises:
            ProgramMissing: headrace-confine is not built.
        """
        return [str(find_program("headrace-confine")), *self._options(), "--"]

    def _options(self) -> Iterator[str]:
        yield f"--user={self.user}"
        yield from (f"--group={group}" for group in self.groups)
        yield from (f"--cgroup={file}" for file in self.process_files)
        if self.waits_at is not None:
            yield f"--waits-at={self.waits_at}"
        if self.locked_mb:
            yield f"--locked-mb={self.locked_mb}"
        if self.joins is not None:
            yield f"--joins={self.joins}"
