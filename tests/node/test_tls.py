# SPDX-License-Identifier: Apache-2.0
"""The API over TLS: certificates made, checked, renewed; old versions refused; the command line."""

import asyncio
import json
import os
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from headrace.client import CACERT_VARIABLE, NODE_VARIABLE, TOKEN_VARIABLE, NodeClient
from headrace.node.access.users import User, hash_of
from headrace.node.errors import ConfigError
from headrace.node.tls import Tls, keep_renewed, make_self_signed, names_of
from tests.node.api import Api, api_of
from tests.node.served import served

PASSWORD = "correct horse battery"


def test_a_certificate_of_its_own(tmp_path: Path) -> None:
    certificate, key = make_self_signed(tmp_path / "new", ["n1.example", "192.0.2.7", "::1"], 30)
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert names_of(certificate) == {"n1.example", "192.0.2.7", "::1"}
    file = str(certificate)
    strict = ["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", file, file]
    subprocess.run(strict, check=True, capture_output=True)
    for names in ([], ["a b"], ["*"], [""]):
        with pytest.raises(ConfigError):
            make_self_signed(tmp_path, names, 30)


def test_files_that_are_no_pair_are_refused(tmp_path: Path) -> None:
    certificate, key = make_self_signed(tmp_path / "a", ["a"], 1)
    _, other = make_self_signed(tmp_path / "b", ["b"], 1)
    for files in ((certificate, other), (key, certificate), (tmp_path / "none", key)):
        with pytest.raises(ConfigError, match=r"rest\.tls"):
            Tls(*files)
    other.chmod(0o604)
    with pytest.raises(ConfigError, match="others may read"):
        Tls(tmp_path / "b" / "node.pem", other)
    locked = tmp_path / "locked.key"
    command = ["openssl", "pkey", "-in", str(key), "-aes128", "-passout", "pass:x"]
    command += ["-out", str(locked)]
    subprocess.run(command, check=True, capture_output=True)
    with pytest.raises(ConfigError, match="encrypted"):
        Tls(certificate, locked)


def test_a_renewal_that_is_not_usable_is_left(tmp_path: Path) -> None:
    certificate, key = make_self_signed(tmp_path, ["a"], 1)
    tls = Tls(certificate, key)
    assert not tls.renew()
    make_self_signed(tmp_path, ["b"], 1)
    assert tls.renew() and tls.names == {"b"}
    certificate.write_text("no certificate")
    assert not tls.renew() and tls.names == {"b"}
    certificate.unlink()
    assert not tls.renew() and tls.names == {"b"}
    make_self_signed(tmp_path, ["c"], 1)
    assert tls.renew() and tls.names == {"c"}


class Site:
    """A node on the fake world that serves TLS on a port of its own."""

    def __init__(self, api: Api, port: int, tls: Tls, files: tuple[Path, Path]) -> None:
        self.api, self.port, self.tls = api, port, tls
        self.certificate, self.key = files

    def client(self, cafile: Path | None = None, **more: Any) -> httpx.AsyncClient:
        context = ssl.create_default_context(cafile=cafile or self.certificate)
        for key, value in more.items():
            setattr(context, key, value)
        return httpx.AsyncClient(verify=context, base_url=f"https://localhost:{self.port}")


@asynccontextmanager
async def serving(rundir: Path, names: tuple[str, ...] = ("localhost",)) -> AsyncIterator[Site]:
    certificate, key = make_self_signed(rundir / "tls", names, 1)
    rest = {
        "login": True,
        "host": "127.0.0.1",
        "port": 0,
        "tls": {"certificate": str(certificate), "key": str(key)},
    }
    async for api in api_of(rundir, rest=rest):
        api.node.users.add(User("ann", "admin"), hash_of(PASSWORD))
        tls = Tls(certificate, key)
        async with served(api.node, tls) as port:
            yield Site(api, port, tls, (certificate, key))


async def test_login_over_tls_and_the_unix_socket_without(rundir: Path) -> None:
    async with serving(rundir) as site, site.client() as http:
        assert (await http.get("/node")).status_code == 401
        body = {"username": "ann", "password": PASSWORD}
        token = (await http.post("/login", json=body)).text
        answer = await http.get("/node", headers={"x-auth-token": token})
        assert answer.status_code == 200
        for origin, code in ((f"https://localhost:{site.port}", 200), ("http://localhost", 403)):
            headers = {"x-auth-token": token, "origin": origin}
            assert (await http.get("/node", headers=headers)).status_code == code
        transport = httpx.AsyncHTTPTransport(uds=str(rundir / "api.sock"))
        async with httpx.AsyncClient(transport=transport) as local:
            assert (await local.get("http://localhost/node")).status_code == 200


async def test_who_cannot_check_the_certificate_does_not_talk(rundir: Path) -> None:
    other, _ = make_self_signed(rundir / "other", ["localhost"], 1)
    async with serving(rundir) as site:
        for client in (
            site.client(cafile=other),
            httpx.AsyncClient(base_url=f"https://localhost:{site.port}"),
            httpx.AsyncClient(base_url=f"http://localhost:{site.port}"),
        ):
            async with client as http:
                with pytest.raises(httpx.TransportError):
                    await http.get("/node")


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion:DeprecationWarning")
async def test_only_modern_versions(rundir: Path) -> None:
    async with serving(rundir) as site:
        for newest, ok in (
            (ssl.TLSVersion.TLSv1, False),
            (ssl.TLSVersion.TLSv1_1, False),
            (ssl.TLSVersion.TLSv1_2, True),
            (ssl.TLSVersion.TLSv1_3, True),
        ):
            context = ssl.create_default_context(cafile=site.certificate)
            context.set_ciphers("ALL:@SECLEVEL=0")
            context.minimum_version = ssl.TLSVersion.TLSv1
            context.maximum_version = newest
            assert await handshake(site.port, context) is ok, newest
        for ciphers in ("AES256-GCM-SHA384", "ECDHE-ECDSA-AES256-SHA384"):
            context = ssl.create_default_context(cafile=site.certificate)
            context.maximum_version = ssl.TLSVersion.TLSv1_2
            context.set_ciphers(ciphers)
            assert not await handshake(site.port, context), ciphers
        # Those clients could: it is the server that refuses.
        site.tls.context.set_ciphers("ALL:@SECLEVEL=0")
        assert await handshake(site.port, context)
        site.tls.context.minimum_version = ssl.TLSVersion.TLSv1
        context.set_ciphers("ALL:@SECLEVEL=0")
        context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1
        assert await handshake(site.port, context)


async def handshake(port: int, context: ssl.SSLContext) -> bool:
    try:
        _, writer = await asyncio.open_connection("localhost", port, ssl=context)
    except (ssl.SSLError, OSError):
        return False
    writer.close()
    return True


async def test_a_certificate_is_loaded_when_its_folder_changes(tmp_path: Path) -> None:
    tls = Tls(*make_self_signed(tmp_path, ["a"], 1))
    keeping = asyncio.create_task(keep_renewed(tls))
    try:
        async with asyncio.timeout(30):
            while tls.names != {"b"}:  # what comes before the folder is followed is not told
                make_self_signed(tmp_path, ["b"], 1)
                await asyncio.sleep(1)
    finally:
        keeping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await keeping


async def test_a_renewed_certificate_serves_new_connections(rundir: Path) -> None:
    async with serving(rundir) as site, site.client() as before:
        assert (await before.get("/node")).status_code == 401
        old = site.certificate.with_name("old.pem")
        old.write_bytes(site.certificate.read_bytes())
        make_self_signed(rundir / "tls", ["localhost", "n2.example"], 1)
        assert site.tls.renew()
        async with site.client() as http:
            assert (await http.get("/node")).status_code == 401
            # The name came with the certificate.
            assert (await http.get("/node", headers={"host": "n2.example"})).status_code == 401
            assert (await http.get("/node", headers={"host": "n3.example"})).status_code == 403
        async with site.client(cafile=old) as http:
            with pytest.raises(httpx.ConnectError):
                await http.get("/node")
        assert (await before.get("/node")).status_code == 401  # its connection stands


async def test_a_client_that_does_not_speak_holds_up_nobody(rundir: Path) -> None:
    async with serving(rundir) as site, site.client() as http:
        silent = [socket.create_connection(("127.0.0.1", site.port)) for _ in range(8)]
        try:
            silent[0].send(b"GET / HTTP/1.1\r\n\r\n")
            assert (await http.get("/node")).status_code == 401
        finally:
            for each in silent:
                each.close()


@pytest.mark.root
@pytest.mark.timeout(240)
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: starts a node")
def test_a_node_on_every_address(rundir: Path) -> None:
    """`up` on 0.0.0.0 with TLS and login; commands through it; a renewal without a restart."""

    def headrace(*words: str, **variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", "from headrace.cli import main; main()", *words],
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
            env={**os.environ, "HEADRACE_RUNDIR": str(rundir), **variables},
        )
        assert done.returncode == 0, (words, done.stderr)
        return done.stdout

    files = rundir.with_name(rundir.name + "-files")
    try:
        said = headrace("node", "certificate", str(files), "--name", "127.0.0.1")
        rest = {**yaml.safe_load(said)["rest"], "host": "0.0.0.0", "port": 0}
        config = files / "node.yaml"
        # The kernel's bridge polls no core.
        config.write_text(yaml.safe_dump({"rest": rest, "switch": "linux-bridge"}))
        headrace("up", "--config", str(config))
        said = headrace("user", "add", "ann", "--group", "admin", "--password", PASSWORD, "--json")
        assert json.loads(said)["username"] == "ann" and PASSWORD not in said
        url = json.loads((rundir / "node.json").read_text())["url"].replace("0.0.0.0", "127.0.0.1")
        assert url.startswith("https://")
        cacert = str(files / "node.pem")
        words = ("login", url, "ann", "--password", PASSWORD, "--cacert", cacert)
        token = json.loads(headrace(*words, "--json"))["token"]
        assert len(headrace(*words).strip()) == len(token)
        elsewhere = {NODE_VARIABLE: url, TOKEN_VARIABLE: token, CACERT_VARIABLE: cacert}
        assert json.loads(headrace("graph", "list", "--json", **elsewhere)) == []
        options = ("--node", url, "--cacert", cacert)
        assert "bridge" in headrace(*options, "status", **{TOKEN_VARIABLE: token})
        names = ("--name", "127.0.0.1", "--name", "n4.example")
        made = json.loads(headrace("node", "certificate", str(files), *names, "--json"))
        assert made == {"certificate": cacert, "key": str(files / "node.key")}
        assert json.loads(headrace("user", "delete", "ann", "--json")) == {"deleted": "ann"}
        headrace("down")
    finally:
        subprocess.run(["rm", "-rf", str(files)], check=True)


def test_no_token_in_the_clear() -> None:
    for url in ("http://192.0.2.1:8080", "http://node.example", "192.0.2.1:8080", "ftp://[::1]"):
        with pytest.raises(SystemExit):
            NodeClient(url, token="secret").get("/node")
