# SPDX-License-Identifier: Apache-2.0
"""Three Headrace nodes as if on three machines: each in a network namespace of its own.

this machine: controller, API server          fabric (a Linux bridge in a namespace)
    | management bridge                             | up0: VXLAN between the nodes
    +---- mgmt0 of n1, n2, n3: REST by TLS ---------+
a host at each node: its eth0 is the node's port `access`, by a veth pair

"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import yaml

from headrace.machine.processes import ProcessId, Supervisor
from headrace.node.tls import make_self_signed
from tests.node.wire import in_namespace
from tests.support.janitor import removed_at_the_latest
from tests.support.namespaces import Namespace
from tests.support.veth import RawPort

Json = dict[str, Any]
ROOT = Path(__file__).resolve().parents[2]
PASSWORD = "correct horse battery staple"
MTU = 1400
"""Of the hosts: with the headers of VXLAN over IPv4 (50 octets) a frame fits into 1500."""

# The node's own commands: the whole of `headrace` loads what measures and draws, too.
_MAIN = """
import typer
from headrace.commands import node
app = typer.Typer(pretty_exceptions_enable=False)
node.register(app)
app()
"""


def ip(*words: str) -> None:
    """Runs `ip` on this machine."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"


class Node:
    """One node in its namespace, and a host behind its port `access`, in another."""

    def __init__(self, fabric: Fabric, number: int) -> None:
        self._fabric, self.number = fabric, number
        self.name = f"n{number}"
        self.address = f"198.18.77.{10 + number}"
        self.tunnel_address = f"198.18.78.{number}"
        self.host_address = f"198.51.100.{number}"
        self.netns, self.host = Namespace(), Namespace()
        self.rundir = Path(tempfile.mkdtemp(prefix=f"hr-n{number}-"))
        self.tls: tuple[Path, Path] | None = None

    def make(self, stack: ExitStack) -> None:
        """Makes the namespaces with their wires."""
        stack.enter_context(removed_at_the_latest("directory", self.rundir))
        stack.enter_context(removed_at_the_latest("node", self.rundir))
        stack.enter_context(self.netns)
        stack.enter_context(self.host)
        stack.callback(self.down)
        tag = self._fabric.tag
        management = f"{tag}m{self.number}"
        ip("link", "add", management, "type", "veth", "peer", "name", "mgmt0", "netns", self.ns)
        ip("link", "set", management, "master", self._fabric.bridge, "up")
        self.netns.run("ip", "addr", "add", f"{self.address}/24", "dev", "mgmt0")
        self.netns.run("ip", "link", "set", "mgmt0", "up")
        for inner, far, where in (
            ("up0", f"u{self.number}", self._fabric.netns.name),
            ("access0", "eth0", self.host.name),
        ):
            self.netns.run(
                "ip", "link", "add", inner, "type", "veth", "peer", "name", far, "netns", where
            )
            self.netns.run("ip", "link", "set", inner, "up")
            self.netns.run("sysctl", "-qw", f"net.ipv6.conf.{inner}.disable_ipv6=1")
            # What leaves or enters the switch is whole: no device behind it completes a checksum.
            self.netns.run("ethtool", "-K", inner, "tx", "off", "tso", "off", "gso", "off")
        fabric = self._fabric.netns
        fabric.run("ip", "link", "set", f"u{self.number}", "master", "fabric", "up")
        host = self.host
        host.run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
        host.run("ethtool", "-K", "eth0", "tx", "off", "tso", "off", "gso", "off")
        host.run("ip", "link", "set", "eth0", "mtu", str(MTU), "up")
        host.run("ip", "addr", "add", f"{self.host_address}/24", "dev", "eth0")

    @property
    def ns(self) -> str:
        """The name of its network namespace."""
        return self.netns.name

    def up(self) -> None:
        """Starts the node, or goes on with what it was."""
        if self.tls is None:
            folder = self.rundir.parent / f"{self.rundir.name}-tls"
            self.tls = make_self_signed(folder, [self.address], 1)
        certificate, key = self.tls
        settings = {
            "name": self.name,
            "switch": "headrace",
            "rest": {
                "host": "0.0.0.0",
                "port": 8443,
                "names": [self.address],
                "login": True,
                "tls": {"certificate": str(certificate), "key": str(key)},
            },
            "oversubscribe": True,
            "hugepages": "off",
            "memory_mb": 4096,
            "switch_memory_mb": 128,
            "ports": [
                {
                    "name": "up",
                    "kind": "system",
                    "options": {"iface": "up0"},
                    "addresses": [f"{self.tunnel_address}/24"],
                },
                {"name": "access", "kind": "system", "options": {"iface": "access0"}},
            ],
        }
        file = self.rundir.parent / f"{self.rundir.name}.yaml"
        file.write_text(yaml.safe_dump(settings))
        self._headrace("up", "--config", str(file))
        with self.local() as http:
            if http.get("/users/controller").status_code == 404:
                user = {"password": PASSWORD, "group": "admin"}
                http.post("/users/controller", json=user).raise_for_status()

    def down(self) -> None:
        """Ends the node and all that it has started."""
        with contextlib.suppress(AssertionError):
            self._headrace("down")
        for left in self.rundir.parent.glob(f"{self.rundir.name}*"):
            subprocess.run(["rm", "-rf", str(left)], check=False)

    def _headrace(self, *words: str) -> None:
        done = subprocess.run(
            [
                # `ip netns exec` would mount another /sys, without the control groups of VNFs.
                *("nsenter", f"--net=/run/netns/{self.ns}"),
                *(sys.executable, "-c", _MAIN, *words, "--rundir", str(self.rundir)),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=180,
        )
        assert done.returncode == 0, f"headrace {words[0]}: {done.stdout}{done.stderr}"

    def die(self) -> None:
        """Kills the node and all that it runs at once, and unplugs it from the management."""
        self.netns.run("ip", "link", "set", "mgmt0", "down")
        said = json.loads((self.rundir / "node.json").read_text())
        processes = [ProcessId(int(said["pid"]), int(said["start_ticks"]))]
        supervisor = Supervisor(self.rundir)
        processes += [found for name in supervisor.all() if (found := supervisor.find(name))]
        for process in processes:
            process.signal(signal.SIGKILL)

    def come_back(self) -> None:
        """Starts again what has died."""
        self.netns.run("ip", "link", "set", "mgmt0", "up")
        self.up()

    def local(self) -> httpx.Client:
        """A client through its own socket, which needs no login."""
        transport = httpx.HTTPTransport(uds=str(self.rundir / "api.sock"))
        return httpx.Client(transport=transport, base_url="http://localhost", timeout=60.0)

    def raw_port(self) -> RawPort:
        """Whole frames from and to the host behind it; the caller closes it."""
        return in_namespace(f"/run/netns/{self.host.name}", lambda: RawPort("eth0"))

    def graphs(self) -> list[str]:
        """The ids of its graphs."""
        with self.local() as http:
            return [str(one["id"]) for one in http.get("/node/graphs").raise_for_status().json()]

    def packets(self) -> int:
        """Frames that have come from tunnels' physical port or left by it."""
        with self.local() as http:
            ports = {row["name"]: row for row in http.get("/node/ports").json()}
        statistics = ports["up"]["statistics"]
        return int(statistics["rx_packets"]) + int(statistics["tx_packets"])

    def left(self) -> list[str]:
        """What a node without graphs has no use for: LSIs but LSI-0, VNFs, interfaces."""
        with self.local() as http:
            lsi0 = http.get("/node").json()["switch"]["lsi0"]
            rows = http.get("/node/switch/ports").json()
        found = [row["port"] for row in rows if row["lsi"] != lsi0]
        found += [name for name in Supervisor(self.rundir).all() if name.startswith("vnf")]
        links = json.loads(self.netns.run("ip", "-json", "link"))
        known = {"lo", "mgmt0", "up0", "access0", lsi0}
        found += [link["ifname"] for link in links if link["ifname"] not in known]
        return found + self.graphs()

    def objects(self) -> list[tuple[str, Json]]:
        """The Secret and the HeadraceNode for the API server, with their collections."""
        assert self.tls is not None
        values = {
            "username": b"controller",
            "password": PASSWORD.encode(),
            "ca.crt": self.tls[0].read_bytes(),
        }
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": f"{self.name}-token", "namespace": "headrace"},
            "data": {key: base64.b64encode(value).decode() for key, value in values.items()},
        }
        node = {
            "apiVersion": "headrace.dev/v1alpha1",
            "kind": "HeadraceNode",
            "metadata": {"name": self.name},
            "spec": {
                "address": f"https://{self.address}:8443",
                "tunnelAddress": self.tunnel_address,
                "resources": {
                    "cores": 2,
                    "switchCores": 1,
                    "ghz": 2.5,
                    "memoryMb": 4096,
                    "linkGbps": 10,
                },
                "model": {"entry": 120, "visit": {"memif": 260, "vhost-user": 260}, "hopUs": 6},
                "tokenSecret": {"name": f"{self.name}-token", "namespace": "headrace"},
            },
        }
        return [
            ("/api/v1/namespaces/headrace/secrets", secret),
            ("/apis/headrace.dev/v1alpha1/headracenodes", node),
        ]


class Fabric:
    """Three nodes with the wires between them."""

    def __init__(self) -> None:
        self.tag = f"hk{os.getpid() % 100000}"
        self.bridge = f"{self.tag}b"
        self.netns = Namespace()
        self.nodes = [Node(self, number) for number in (1, 2, 3)]
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.enter_context(removed_at_the_latest("link", self.bridge))
            ip("link", "add", self.bridge, "type", "bridge")
            stack.callback(ip, "link", "del", self.bridge)
            ip("addr", "add", "198.18.77.1/24", "dev", self.bridge)
            ip("link", "set", self.bridge, "up")
            stack.enter_context(self.netns)
            self.netns.run("ip", "link", "add", "fabric", "type", "bridge")
            self.netns.run("ip", "link", "set", "fabric", "up")
            for node in self.nodes:
                node.make(stack)
                node.up()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    def node(self, name: str) -> Node:
        """A node by its name."""
        return next(node for node in self.nodes if node.name == name)


def wait_for(what: str, holds: Any, timeout_s: float = 60.0) -> None:
    """Waits until `holds()` is true."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end, f"never came true: {what}"
        time.sleep(0.05)
