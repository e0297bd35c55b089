# SPDX-License-Identifier: Apache-2.0
"""TLS end to end: ovs-ofctl at a pssl: controller target, and an ovsdb-server at ssl:."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

import pytest

from tests.support.daemon import Daemon
from tests.support.switch import SCHEMA, Switch, run, running_switch

pytestmark = [pytest.mark.root, pytest.mark.dpdk]

BRIDGE = f"tls{os.getpid()}"


class Authority:
    """A certificate authority of our own, by openssl."""

    def __init__(self, where: Path) -> None:
        where.mkdir()
        self.where = where
        self.certificate = where / "ca.pem"
        self._key = where / "ca.key"
        _openssl(
            *("req", "-x509", "-nodes", "-days", "2", "-subj", f"/CN={where.name}"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
            *("-keyout", self._key, "-out", self.certificate),
        )

    def sign(self, name: str) -> tuple[Path, Path]:
        """A new key, and a certificate for it."""
        key, request, certificate = (self.where / f"{name}.{end}" for end in ("key", "csr", "pem"))
        _openssl(
            *("req", "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"),
        )
        _openssl(
            *("x509", "-req", "-days", "2", "-in", request, "-out", certificate),
            *("-CA", self.certificate, "-CAkey", self._key, "-CAcreateserial"),
        )
        return key, certificate


def _openssl(*words: str | Path) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True, text=True)


def free_port() -> int:
    """A TCP port that nobody uses now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ofctl(port: int, key: Path, certificate: Path, authority: Path) -> str:
    """`ovs-ofctl show` over TLS; what it says, or an empty text if it fails."""
    done = subprocess.run(
        [
            *("ovs-ofctl", "-O", "OpenFlow13", "--timeout=5", f"--private-key={key}"),
            *(f"--certificate={certificate}", f"--ca-cert={authority}"),
            *("show", f"ssl:127.0.0.1:{port}"),
        ],
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    return done.stdout if done.returncode == 0 else ""


def test_controllers_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    ours, theirs = authority.sign("switch"), authority.sign("controller")
    unrelated = Authority(tmp_path / "unrelated")
    port = free_port()
    with running_switch(tmp_path, extra=("--no-huge",)) as switch:
        # The target comes before the certificate: it is listened on once that is there.
        switch.vsctl(
            *("add-br", BRIDGE, "--", "set", "Bridge", BRIDGE, "fail-mode=secure"),
            *("--", "set-controller", BRIDGE, f"pssl:{port}:127.0.0.1"),
        )
        assert switch.vsctl("get", "Controller", BRIDGE, "status:last_error") != ""
        switch.vsctl("set-ssl", str(ours[0]), str(ours[1]), str(authority.certificate))
        end = time.monotonic() + 20
        while not (shown := ofctl(port, *theirs, authority.certificate)):
            assert time.monotonic() < end
            time.sleep(0.2)
        assert f"LOCAL({BRIDGE})" in shown
        # Of another authority: refused, though it trusts ours.
        assert not ofctl(port, *unrelated.sign("controller"), authority.certificate)


def test_the_first_peer_brings_the_authority(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    ours, theirs = authority.sign("switch"), authority.sign("controller")
    unrelated = Authority(tmp_path / "unrelated")
    port, kept = free_port(), tmp_path / "kept.pem"
    with running_switch(tmp_path, extra=("--no-huge",)) as switch:
        switch.vsctl(
            *("--", "--bootstrap", "set-ssl", str(ours[0]), str(ours[1]), str(kept)),
            *("--", "add-br", BRIDGE, "--", "set-controller", BRIDGE, f"pssl:{port}:127.0.0.1"),
        )
        end = time.monotonic() + 20
        while not kept.exists():  # it may not listen yet
            assert time.monotonic() < end
            # Its chain ends in the root that it knows itself.
            assert not ofctl(port, *theirs, authority.certificate), "only the next one is taken"
            time.sleep(0.1)
        assert kept.read_text() == authority.certificate.read_text()
        assert f"LOCAL({BRIDGE})" in ofctl(port, *theirs, authority.certificate)
        assert not ofctl(port, *unrelated.sign("controller"), authority.certificate)
        assert kept.read_text() == authority.certificate.read_text()


def test_database_over_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "authority")
    server_key, server_certificate = authority.sign("server")
    key, certificate = authority.sign("switch")
    port = free_port()
    rows = tmp_path / "conf.db"
    run("ovsdb-tool", "create", rows, SCHEMA)
    server = Daemon(
        [
            *("/usr/sbin/ovsdb-server", "--no-chdir", f"--remote=punix:{tmp_path}/db.sock"),
            *(f"--remote=pssl:{port}:127.0.0.1", f"--unixctl={tmp_path}/ovsdb.ctl"),
            *(f"--private-key={server_key}", f"--certificate={server_certificate}"),
            *(f"--ca-cert={authority.certificate}", rows),
        ],
        tmp_path / "ovsdb-server.log",
    )
    switch = Switch(
        tmp_path,
        db=f"ssl:127.0.0.1:{port}",
        extra=(
            *("--no-huge", f"--private-key={key}", f"--certificate={certificate}"),
            f"--ca-cert={authority.certificate}",
        ),
    )
    try:
        server.wait_until(switch.database.exists)
        switch.vsctl("--no-wait", "init")
        switch.start_switch()
        switch.vsctl("add-br", BRIDGE)
        assert f"LOCAL({BRIDGE})" in switch.ofctl("show", BRIDGE)
    finally:
        if switch.process is not None:
            switch.stop_switch()
        server.stop()
