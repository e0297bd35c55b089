# SPDX-License-Identifier: Apache-2.0
"""etcd, kube-apiserver, kube-controller-manager and kube-scheduler on the loopback interface.

Everything is as in any cluster (TLS, client certificates, RBAC, service accounts) but for the
addresses, and etcd, which does not wait for the disk.
"""

from __future__ import annotations

import socket
import ssl
import subprocess
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml
from cryptography.hazmat.primitives.asymmetric import ec

from tests.kubernetes.certificates import Authority, write_key
from tests.support.daemon import Daemon

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]


def built() -> Path | None:
    """The folder of the programs, if they are built."""
    asked = ["bash", str(ROOT / "setup/cluster.sh"), "--if-built"]
    done = subprocess.run(asked, capture_output=True, text=True)
    return Path(done.stdout.strip()) if done.returncode == 0 else None


def free_ports(count: int) -> list[int]:
    """TCP ports of the loopback interface that nobody has."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]


class ControlPlane:
    """A control plane with its files in `folder`; `api` is its administrator's client.

    `scheduler` is what the scheduler's configuration has besides, such as extenders.
    """

    api: Api

    def __init__(self, programs: Path, folder: Path, scheduler: Json | None = None) -> None:
        self._programs, self.folder = programs, folder
        self._scheduler = scheduler or {}
        self._daemons: list[Daemon] = []
        self.kubeconfig = folder / "admin.conf"

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def stop(self) -> None:
        """Ends all programs, the API server's clients first."""
        for daemon in reversed(self._daemons):
            daemon.stop(timeout_s=60.0)
        self._daemons.clear()

    def _start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        etcd, peers, api, manager, scheduler = free_ports(5)
        authority = Authority(self.folder)
        for name, who, group in (
            ("etcd", "etcd", ""),
            ("apiserver", "kube-apiserver", ""),
            ("admin", "admin", "system:masters"),
            ("controller-manager", "system:kube-controller-manager", ""),
            ("scheduler", "system:kube-scheduler", ""),
        ):
            authority.issue(name, who, group)
            if name not in ("etcd", "apiserver"):
                self._write_kubeconfig(name, f"https://127.0.0.1:{api}")
        write_key(self.folder / "accounts.key", ec.generate_private_key(ec.SECP256R1()))
        self._run_etcd(etcd, peers)
        self.api = Api(self.folder, f"https://127.0.0.1:{api}")
        self._run_apiserver(etcd, api)
        self._run_managers(manager, scheduler)

    def _run(self, program: str, **options: Any) -> Daemon:
        words = [f"--{key.replace('_', '-')}={value}" for key, value in options.items()]
        log = self.folder / f"{program}.log"
        daemon = Daemon([self._programs / program, *words], log)
        self._daemons.append(daemon)
        return daemon

    def _run_etcd(self, client: int, peers: int) -> None:
        here = self.folder
        self._run(
            "etcd",
            data_dir=here / "etcd",
            listen_client_urls=f"https://127.0.0.1:{client}",
            advertise_client_urls=f"https://127.0.0.1:{client}",
            listen_peer_urls=f"http://127.0.0.1:{peers}",
            initial_advertise_peer_urls=f"http://127.0.0.1:{peers}",
            initial_cluster=f"default=http://127.0.0.1:{peers}",
            cert_file=here / "etcd.pem",
            key_file=here / "etcd.key",
            trusted_ca_file=here / "ca.pem",
            client_cert_auth="true",
            unsafe_no_fsync="true",
        )

    def _run_apiserver(self, etcd: int, port: int) -> None:
        here = self.folder
        daemon = self._run(
            "kube-apiserver",
            etcd_servers=f"https://127.0.0.1:{etcd}",
            etcd_cafile=here / "ca.pem",
            etcd_certfile=here / "apiserver.pem",
            etcd_keyfile=here / "apiserver.key",
            bind_address="127.0.0.1",
            advertise_address="127.0.0.1",
            endpoint_reconciler_type="none",
            secure_port=port,
            tls_cert_file=here / "apiserver.pem",
            tls_private_key_file=here / "apiserver.key",
            client_ca_file=here / "ca.pem",
            service_account_issuer="https://kubernetes.default.svc",
            service_account_key_file=here / "accounts.key",
            service_account_signing_key_file=here / "accounts.key",
            service_cluster_ip_range="10.96.0.0/24",
            authorization_mode="Node,RBAC",
            allow_privileged="true",
        )
        daemon.wait_until(self.api.ready, timeout_s=180.0)

    def _run_managers(self, manager: int, scheduler: int) -> None:
        here = self.folder
        self._run(
            "kube-controller-manager",
            kubeconfig=here / "controller-manager.conf",
            authentication_kubeconfig=here / "controller-manager.conf",
            authorization_kubeconfig=here / "controller-manager.conf",
            service_account_private_key_file=here / "accounts.key",
            root_ca_file=here / "ca.pem",
            use_service_account_credentials="true",
            bind_address="127.0.0.1",
            secure_port=manager,
            leader_elect="false",
            node_monitor_grace_period="40s",
        )
        configuration = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(here / "scheduler.conf")},
            "leaderElection": {"leaderElect": False},
            **self._scheduler,
        }
        (here / "scheduler.yaml").write_text(yaml.safe_dump(configuration))
        self._run(
            "kube-scheduler",
            config=here / "scheduler.yaml",
            authentication_kubeconfig=here / "scheduler.conf",
            authorization_kubeconfig=here / "scheduler.conf",
            bind_address="127.0.0.1",
            secure_port=scheduler,
        )

    def _write_kubeconfig(self, name: str, server: str) -> None:
        here = self.folder
        cluster = {"server": server, "certificate-authority": str(here / "ca.pem")}
        user = {
            "client-certificate": str(here / f"{name}.pem"),
            "client-key": str(here / f"{name}.key"),
        }
        configuration = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": cluster}],
            "users": [{"name": name, "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": name}}],
            "current-context": "test",
        }
        (here / f"{name}.conf").write_text(yaml.safe_dump(configuration))

    def logs(self, lines: int = 15) -> str:
        """The ends of all logs."""
        return "\n".join(f"{d.argv[0]}:\n{d.log_tail(lines)}" for d in self._daemons)


class Api:
    """The API server as the administrator sees it; paths are those of its REST API."""

    def __init__(self, folder: Path, url: str) -> None:
        context = ssl.create_default_context(cafile=folder / "ca.pem")
        context.load_cert_chain(folder / "admin.pem", folder / "admin.key")
        self._http = httpx.Client(base_url=url, verify=context, timeout=60.0)

    def ready(self) -> bool:
        """Whether the API server is."""
        try:
            return self._http.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def get(self, path: str) -> Json:
        """An object or a list, which has to be there."""
        return self._ask("GET", path)

    def items(self, path: str) -> list[Json]:
        """The objects of a list."""
        found: list[Json] = self.get(path)["items"]
        return found

    def find(self, path: str) -> Json | None:
        """An object, if it is there; None also while its storage is being made (429)."""
        answer = self._http.get(path)
        return None if answer.status_code in (404, 429) else self._content(answer)

    def create(self, path: str, body: Json) -> Json:
        """Makes an object in a collection."""
        return self._ask("POST", path, body)

    def patch(self, path: str, body: Json) -> Json:
        """Changes an object (RFC 7396)."""
        headers = {"content-type": "application/merge-patch+json"}
        return self._content(self._http.patch(path, json=body, headers=headers))

    def delete(self, path: str) -> None:
        """Has an object removed; one that is not there is no error."""
        answer = self._http.delete(path)
        if answer.status_code != 404:
            self._content(answer)

    def _ask(self, method: str, path: str, body: Json | None = None) -> Json:
        return self._content(self._http.request(method, path, json=body))

    @staticmethod
    def _content(answer: httpx.Response) -> Json:
        assert answer.is_success, f"{answer.request.method} {answer.request.url}: {answer.text}"
        content: Json = answer.json()
        return content

    def until(self, what: str, holds: Callable[[], Any], timeout_s: float = 60.0) -> Any:
        """Waits until `holds` is true; what it gave then."""
        end = time.monotonic() + timeout_s
        while True:
            found = holds()
            if found:
                return found
            assert time.monotonic() < end, f"never came true: {what}"
            time.sleep(0.05)
