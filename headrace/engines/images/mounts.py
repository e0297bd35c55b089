# SPDX-License-Identifier: Apache-2.0
"""Mounts an unpacked image for one VNF: its users shifted, what it writes kept apart and bounded.

    <bundle>/image    the cached image, read-only, with its ids mapped to those of the VNF
                      (mount_setattr(2), MOUNT_ATTR_IDMAP; nothing is copied)
    <bundle>/changes  a tmpfs of bounded size for what the VNF changes
    <bundle>/rootfs   both, by overlayfs

Ids: the image's root is the VNF's user on the host, its other users are those of a range of the
host that follows from the VNF's user (`Shift`). Overlayfs above such a mount needs Linux 5.19.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.engines.images import ImageError

IDS = 65536
"""Users, and groups, of an image."""

_RANGES_FROM, _RANGES = 2_147_483_648, 32_000
_MOUNT, _UMOUNT, _UNSHARE = "/usr/bin/mount", "/usr/bin/umount", "/usr/bin/unshare"

# Linux, x86-64: asm/unistd_64.h, linux/mount.h, fcntl.h.
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_AT_FDCWD, _AT_EMPTY_PATH = -100, 0x1000
_OPEN_TREE_CLONE, _MOVE_MOUNT_F_EMPTY_PATH = 1, 4
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV = 0x1, 0x2, 0x4
_MOUNT_ATTR_IDMAP = 0x0010_0000


@dataclass(frozen=True)
class Shift:
    """Where the users of an image are on the host: root is `user`, n is `base` + n."""

    user: int

    @property
    def base(self) -> int:
        """The first id of the range.

        The users of a node's VNFs follow each other, so no two of one node have the same range.
        """
        return _RANGES_FROM + (self.user % _RANGES) * IDS

    def of_user(self, inside: int) -> int:
        """The id on the host of a user or group of the image."""
        return self.user if inside == 0 else self.base + inside


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("set", ctypes.c_uint64),
        ("clear", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns", ctypes.c_uint64),
    )


def mount_image(image: Path, bundle: Path, shift: Shift, writable_mb: int) -> Path:
    """Mounts all three; returns the root. `unmount` undoes it, also what a failure left.

    Raises:
        ImageError: the kernel refuses; says what.
    """
    below, changes, root = (bundle / name for name in ("image", "changes", "rootfs"))
    try:
        for place in (below, changes, root):
            place.mkdir(mode=0o700)
        with _user_namespace(shift) as namespace:
            _mount_shifted(image, below, namespace)
        size = f"size={writable_mb}m,mode=0700,nr_inodes={writable_mb * 256}"
        _run(_MOUNT, "-t", "tmpfs", "-o", f"nosuid,nodev,{size}", "none", str(changes))
        upper, work = changes / "upper", changes / "work"
        upper.mkdir(mode=0o755)
        work.mkdir(mode=0o700)
        os.chown(upper, shift.user, shift.user)
        layers = f"lowerdir={below},upperdir={upper},workdir={work}"
        _run(_MOUNT, "-t", "overlay", "-o", f"nosuid,nodev,{layers}", "overlay", str(root))
    except (OSError, subprocess.SubprocessError) as error:
        unmount(bundle)
        raise ImageError(f"the image cannot be mounted: {error}") from error
    return root


def unmount(bundle: Path) -> None:
    """Unmounts what `mount_image` has mounted in this bundle."""
    # os.path.ismount does not see mounts of one file system within itself, as `image` is.
    mounted = {line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()}
    for name in ("rootfs", "changes", "image"):
        if str(bundle.resolve() / name) in mounted:
            _run(_UMOUNT, "--lazy", str(bundle / name))


def _mount_shifted(image: Path, place: Path, namespace: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)

    def call(name: str, number: int, *words: object) -> int:
        answer = int(libc.syscall(ctypes.c_long(number), *words))
        if answer < 0:
            code = ctypes.get_errno()
            raise OSError(code, f"{name}: {os.strerror(code)} (Linux 5.19 or later is needed)")
        return answer

    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC
    tree = call("open_tree", _SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(image), flags)
    try:
        attributes = _Attributes(
            _MOUNT_ATTR_IDMAP | _MOUNT_ATTR_RDONLY | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV,
            0,
            0,
            namespace,
        )
        size = ctypes.c_size_t(ctypes.sizeof(attributes))
        call(
            "mount_setattr",
            _SYS_MOUNT_SETATTR,
            *(tree, b"", _AT_EMPTY_PATH, ctypes.byref(attributes), size),
        )
        target = (_AT_FDCWD, os.fsencode(place), _MOVE_MOUNT_F_EMPTY_PATH)
        call("move_mount", _SYS_MOVE_MOUNT, tree, b"", *target)
    finally:
        os.close(tree)


@contextmanager
def _user_namespace(shift: Shift) -> Iterator[int]:
    """A descriptor of a user namespace that maps an image's ids; only mounts use it."""
    words = [_UNSHARE, "--user", "/bin/sh", "-c", "echo; exec sleep 60"]
    holder = subprocess.Popen(words, stdout=subprocess.PIPE)  # noqa: S603
    try:
        if holder.stdout is None or not holder.stdout.readline():
            raise OSError(f"{_UNSHARE} makes no user namespace")
        lines = f"0 {shift.user} 1\n1 {shift.base + 1} {IDS - 1}\n"
        for kind in ("uid_map", "gid_map"):
            Path(f"/proc/{holder.pid}/{kind}").write_text(lines)
        namespace = os.open(f"/proc/{holder.pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        try:
            yield namespace
        finally:
            os.close(namespace)
    finally:
        with contextlib.suppress(ProcessLookupError):
            holder.send_signal(signal.SIGKILL)
        holder.wait()
        if holder.stdout is not None:
            holder.stdout.close()


def _run(*words: str) -> None:
    done = subprocess.run(words, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        raise OSError(f"{words[0]}: {done.stderr.strip()}")
