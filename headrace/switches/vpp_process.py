# SPDX-License-Identifier: Apache-2.0
"""A VPP that the node starts: its configuration, its start, its end.

Its sockets, log and shared memory have names of the node's own, so it disturbs no other VPP of the
machine. Without the plugin of DPDK it takes no device of the machine and needs no hugepages;
vhost-user, memif and packet sockets are VPP's own.
"""

import asyncio
import shutil
import time
from pathlib import Path

from headrace.machine.patience import patient
from headrace.machine.processes import ProcessError, Supervisor, make_private
from headrace.switches.base import SwitchError, SwitchSettings

PROCESS = "switch"
"""Its name at the supervisor, for the first switch of a node."""
START_S = 20.0
_LEAST_HEAP_MB = 256
_BUFFER_BYTES = 2560
"""What a buffer takes: 2048 octets of data, its metadata and room before the data."""
_SHARED_MEMORY = Path("/dev/shm")  # noqa: S108  (VPP's place, not ours)


def main_core(settings: SwitchSettings) -> int:
    """The core of VPP's main thread, which VPP lets share no core with a worker."""
    free = [core for core in settings.control_cores if core not in settings.cores]
    return free[0] if free else settings.cores[0]


def startup_conf(settings: SwitchSettings, directory: Path) -> str:
    """VPP's configuration file.

    Half of the switch's memory is for buffers; the heap is mapped, and taken as it fills. Where no
    control core is apart from the switch's there is no worker: the main thread forwards.
    """
    main = main_core(settings)
    workers = [core for core in settings.cores if core != main]
    buffers = settings.memory_mb * 2**20 // 2 // _BUFFER_BYTES
    page = "default-hugepage" if settings.hugepages else "default"
    sleep = f"  poll-sleep-usec {settings.max_sleep_us}\n" if settings.max_sleep_us else ""
    listed = f"  corelist-workers {','.join(map(str, workers))}\n" if workers else ""
    return (
        "unix {\n  nodaemon\n"
        f"  log {directory / 'vpp.log'}\n"
        f"  cli-listen {directory / 'cli.sock'}\n"
        f"  runtime-dir {directory}\n{sleep}}}\n"
        f"api-segment {{\n  prefix {settings.named(settings.prefix)}\n}}\n"
        f"socksvr {{\n  socket-name {directory / 'api.sock'}\n}}\n"
        f"statseg {{\n  socket-name {directory / 'stats.sock'}\n}}\n"
        f"cpu {{\n  main-core {main}\n{listed}}}\n"
        f"memory {{\n  main-heap-size {max(_LEAST_HEAP_MB, settings.memory_mb // 2)}M\n}}\n"
        f"buffers {{\n  buffers-per-numa {buffers}\n  page-size {page}\n}}\n"
        "plugins {\n  plugin dpdk_plugin.so { disable }\n}\n"
    )


class VppProcess:
    """A VPP of the node's own.

    Args:
        program: a path, or a name on $PATH.
    """

    def __init__(self, settings: SwitchSettings, supervisor: Supervisor, program: str) -> None:
        self._settings = settings
        self._supervisor = supervisor
        self._program = program
        self._directory = settings.rundir / settings.named("vpp")
        self.name = settings.named(PROCESS)

    @property
    def socket(self) -> Path:
        """Its API socket."""
        return self._directory / "api.sock"

    async def ensure(self) -> bool:
        """Makes it run; returns whether it did already.

        Raises:
            SwitchError: the program is missing, or ended before its API socket was there.
        """
        if self._supervisor.find(self.name) is not None:
            await self._until_open()
            return True
        program = shutil.which(self._program)
        if program is None:
            raise SwitchError(f"vpp: there is no program {self._program}; install VPP")
        make_private(self._directory)
        self._remove_remains()
        config = self._directory / "startup.conf"
        config.write_text(startup_conf(self._settings, self._directory))
        cores = sorted({main_core(self._settings), *self._settings.cores})
        try:
            await self._supervisor.ensure(self.name, [program, "-c", str(config)], cores=cores)
        except ProcessError as error:
            raise SwitchError(f"vpp: {error}") from error
        await self._until_open()
        return False

    async def _until_open(self) -> None:
        end = time.monotonic() + patient(START_S)
        while not self.socket.is_socket():
            if self._supervisor.find(self.name) is None:
                words = self._supervisor.last_words(self.name)
                raise SwitchError(f"vpp has ended: {words}")
            if time.monotonic() > end:
                log = self._supervisor.log_of(self.name)
                raise SwitchError(f"vpp does not open {self.socket}; see {log}")
            await asyncio.sleep(0.05)

    def _remove_remains(self) -> None:
        """What an earlier one has left: sockets, and its shared memory, which it never removes."""
        for left in self._directory.iterdir():
            if left.is_socket():
                left.unlink()
        for left in _SHARED_MEMORY.glob(f"{self._settings.named(self._settings.prefix)}-*"):
            left.unlink(missing_ok=True)

    async def end(self) -> None:
        """Ends it and removes its files."""
        await self._supervisor.end(self.name)
        if self._directory.is_dir():
            self._remove_remains()
            shutil.rmtree(self._directory)
