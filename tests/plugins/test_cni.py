# SPDX-License-Identifier: Apache-2.0
"""The CNI plugin by the cases of the CNI specification 1.1.0, on a real node with packets."""

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.machine.programs import ProgramMissing, find_program
from headrace.node.config import PortConfig
from headrace.node.node import Node
from headrace.traffic import StreamSpec, TrafficError, TrafficProcess
from tests.node.conftest import StartNode, rundir, start_node
from tests.node.served import served
from tests.plugins.runtime import BUILT, Answer, Container, Json, execute
from tests.support.namespaces import Namespace

__all__ = ["rundir", "start_node"]


def _lacking() -> str:
    """Why these tests cannot run here."""
    if os.geteuid() != 0:
        return "needs root: makes network namespaces and starts a switch"
    if not (BUILT / "headrace-cni").exists():
        return "the plugins are not built (make plugins)"
    with contextlib.suppress(ProgramMissing):
        find_program("headrace-switch")
        return ""
    return "headrace-switch is not built"


pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.full,
    pytest.mark.skipif(bool(_lacking()), reason=_lacking()),
]


class Bed:
    """A node behind its socket, and containers."""

    def __init__(self, node: Node, folder: Path) -> None:
        self.node, self.folder = node, folder
        self.configuration: Json = {
            "cniVersion": "1.1.0",
            "name": "blue",
            "type": "headrace-cni",
            "node": str(node.rundir / "api.sock"),
            "sockets": str(folder / "pods"),
        }

    def addressed(self, number: int) -> Json:
        """The configuration with an address of its own, in a network of pods."""
        addresses = [{"address": f"198.51.100.{number}/24"}]
        ipam = {"type": "static", "addresses": addresses}
        return {**self.configuration, "network": "blue", "ipam": ipam}

    async def call(self, container: Container, command: str, *args: str, **change: Any) -> Answer:
        """As Container.call, while the node goes on."""
        return await asyncio.to_thread(container.call, command, *args, **change)

    async def add(self, container: Container, *args: str, **change: Any) -> Json:
        """As Container.add, while the node goes on."""
        return await asyncio.to_thread(container.add, *args, **change)

    async def other(self, command: str, change: Json | None = None) -> Answer:
        """A command that is about no container."""
        text = json.dumps({**self.configuration, **(change or {})})
        variables = {"CNI_COMMAND": command}
        return await asyncio.to_thread(execute, "headrace-cni", variables, text)

    def left(self) -> list[str]:
        """What there is of pods at the node and in the kernel."""
        links = [name for name in os.listdir("/sys/class/net") if re.match("pod[0-9a-f]{12}", name)]
        graphs = [record.id for record in self.node.graphs.records()]
        return [*self.node.outer.owners(), *links, *graphs]


@pytest.fixture
async def bed(start_node: StartNode, tmp_path: Path) -> AsyncIterator[Bed]:
    """A node with a bed for pods."""
    node = await start_node(
        ports=[{"name": "p0", "kind": "memif"}], rest={"port": 0}, oversubscribe=True
    )
    async with served(node):
        yield Bed(node, tmp_path)


@pytest.fixture
def netns() -> Iterator[Namespace]:
    """The network namespace of a container."""
    with Namespace() as made:
        yield made


@pytest.fixture
def other_netns() -> Iterator[Namespace]:
    """That of another."""
    with Namespace() as made:
        yield made


@pytest.mark.parametrize("version", ["0.3.1", "0.4.0", "1.0.0", "1.1.0"])
def test_version(version: str) -> None:
    """Needs CNI_COMMAND alone, and lists what is supported."""
    text = json.dumps({"cniVersion": version})
    answer = execute("headrace-cni", {"CNI_COMMAND": "VERSION"}, text)
    assert answer.exit_code == 0 and answer.content is not None
    assert answer.content["supportedVersions"] == ["0.3.1", "0.4.0", "1.0.0", "1.1.0"]


COMPLETE = {
    "CNI_COMMAND": "ADD",
    "CNI_CONTAINERID": "c",
    "CNI_NETNS": "/proc/self/ns/net",
    "CNI_IFNAME": "net1",
}
WELL = {"cniVersion": "1.1.0", "name": "blue", "type": "headrace-cni", "node": "/none"}


@pytest.mark.parametrize(
    ("variables", "configuration", "code"),
    [
        ({"CNI_COMMAND": ""}, WELL, 4),
        ({"CNI_COMMAND": "REPLACE"}, WELL, 4),
        ({"CNI_CONTAINERID": ""}, WELL, 4),
        ({"CNI_CONTAINERID": "../etc"}, WELL, 4),
        ({"CNI_NETNS": ""}, WELL, 4),
        ({"CNI_IFNAME": ""}, WELL, 4),
        ({"CNI_IFNAME": "a/b"}, WELL, 4),
        ({"CNI_IFNAME": "name-of-16-octets"}, WELL, 4),
        ({"CNI_ARGS": "no pair"}, WELL, 4),
        ({}, "no JSON", 6),
        ({}, {**WELL, "cniVersion": "2.0.0"}, 1),
        ({}, {**WELL, "cniVersion": "0.2.0"}, 1),
        ({}, {**WELL, "name": ""}, 7),
        ({}, {**WELL, "name": "a/b"}, 7),
        ({}, {**WELL, "kind": "token-ring"}, 7),
        ({}, {**WELL, "mtu": -1}, 7),
        ({}, {**WELL, "node": "relative"}, 7),
        ({}, {**WELL, "args": {"cni": {"port": "a name that is none"}}}, 7),
        ({}, {**WELL, "mtu": "many"}, 6),
        ({"CNI_NETNS": "/proc/self/status"}, WELL, 8),
        ({"CNI_NETNS": "/run/netns/there-is-none"}, WELL, 8),
        ({}, WELL, 11),  # no node answers: it may later
        ({"CNI_COMMAND": "DEL"}, WELL, 11),
        ({"CNI_COMMAND": "CHECK"}, WELL, 7),  # without prevResult
        ({"CNI_COMMAND": "CHECK"}, {**WELL, "cniVersion": "0.3.1"}, 1),  # CHECK is of 0.4.0
        ({"CNI_COMMAND": "STATUS"}, WELL, 50),
        ({"CNI_COMMAND": "STATUS"}, {**WELL, "cniVersion": "1.0.0"}, 1),  # STATUS is of 1.1.0
        ({"CNI_COMMAND": "GC"}, WELL, 11),
        ({"CNI_COMMAND": "GC"}, {**WELL, "cniVersion": "1.0.0"}, 1),
    ],
)
def test_codes_of_errors(variables: dict[str, str], configuration: Json | str, code: int) -> None:
    text = configuration if isinstance(configuration, str) else json.dumps(configuration)
    answer = execute("headrace-cni", {**COMPLETE, **variables}, text)
    assert answer.code == code, answer


async def test_pods_of_a_network_reach_one_another(
    bed: Bed, netns: Namespace, other_netns: Namespace
) -> None:
    one = Container(netns, "one", bed.addressed(1))
    two = Container(other_netns, "two", bed.addressed(2))
    result = await bed.add(one)
    await bed.add(two)
    assert result["cniVersion"] == "1.1.0"
    host, pod = result["interfaces"]
    assert (pod["name"], pod["sandbox"]) == ("net1", one.path)
    assert "sandbox" not in host and re.fullmatch("pod[0-9a-f]{12}", host["name"])
    assert result["ips"] == [{"interface": 1, "address": "198.51.100.1/24"}]
    link = netns.link("net1")
    assert (link["address"], link["operstate"]) == (pod["mac"], "UP")
    for container in (one, two):
        assert (await bed.call(container, "CHECK")).exit_code == 0
    ping = ("busybox", "ping", "-c", "5", "-i", "0.2", "198.51.100.2")
    said = await asyncio.to_thread(netns.run, *ping)
    assert " 0% packet loss" in said
    ports = {row["name"]: row for row in await bed.node.port_list()}
    assert ports[host["name"]]["owner"] == "cni/blue/one/net1"

    for container in (one, two, one):  # DEL again is no error
        assert await bed.call(container, "DEL") == Answer(0, None)
    assert bed.left() == []
    assert "net1" not in netns.run("ip", "link")


async def test_del_without_what_add_has_made(bed: Bed, netns: Namespace) -> None:
    container = Container(netns, "one", bed.addressed(1))
    assert (await bed.call(container, "DEL")).exit_code == 0  # never added
    await bed.add(container)
    netns.run("ip", "link", "del", "net1")  # as when the container's namespace has gone
    assert (await bed.call(container, "DEL")).exit_code == 0
    assert bed.left() == []
    variables = {"CNI_COMMAND": "DEL", "CNI_CONTAINERID": "one", "CNI_IFNAME": "net1"}
    text = json.dumps(container.configuration)
    answer = await asyncio.to_thread(execute, "headrace-cni", variables, text)
    assert answer.exit_code == 0  # CNI_NETNS is optional


async def test_an_interface_that_is_there_is_refused_and_kept(bed: Bed, netns: Namespace) -> None:
    container = Container(netns, "one", bed.addressed(1))
    netns.run("ip", "link", "add", "net1", "type", "veth", "peer", "name", "other")
    assert (await bed.call(container, "ADD")).code == 101
    assert bed.left() == [] and netns.link("net1")
    netns.run("ip", "link", "del", "net1")
    await bed.add(container)
    assert (await bed.call(container, "ADD")).code == 101  # twice
    assert (await bed.call(container, "CHECK")).exit_code == 0  # the first is as it was
    await bed.call(container, "DEL")


async def test_what_add_cannot_finish_it_undoes(bed: Bed, netns: Namespace) -> None:
    container = Container(netns, "one", bed.addressed(1))
    wrong = {"type": "static", "addresses": [{"address": "nonsense"}]}
    assert (await bed.call(container, "ADD", ipam=wrong)).exit_code != 0
    assert bed.left() == [] and "net1" not in netns.run("ip", "link")
    assert (await bed.call(container, "ADD", ipam={"type": "no-such-plugin"})).exit_code != 0
    assert bed.left() == []
    node = PortConfig.model_validate({"name": "taken", "kind": "memif"})
    await bed.node.outer.attach(node, "another's")
    answer = await bed.call(container, "ADD", args={"cni": {"port": "taken"}})
    assert answer.code == 11 and bed.left() == ["taken"]
    assert (await bed.call(container, "ADD", args={"cni": {"port": "p0"}})).code == 100


async def test_check_finds_what_is_missing(bed: Bed, netns: Namespace) -> None:
    container = Container(netns, "one", bed.addressed(1))
    result = await bed.add(container)
    port = result["interfaces"][0]["name"]

    async def fault() -> str:
        answer = await bed.call(container, "CHECK")
        assert answer.code == 102 and answer.content is not None, answer
        return str(answer.content["details"])

    netns.run("ip", "addr", "flush", "dev", "net1")
    assert "lacks the address 198.51.100.1/24" in await fault()
    netns.run("ip", "addr", "add", "198.51.100.1/24", "dev", "net1")
    assert (await bed.call(container, "CHECK")).exit_code == 0
    await bed.node.graphs.delete(f"cni-{port}")
    assert "no graph" in await fault()
    await bed.node.outer.detach(port)
    assert "no port" in await fault()
    netns.run("ip", "link", "del", "net1")
    assert "no interface net1" in await fault()
    assert (await bed.call(container, "DEL")).exit_code == 0


async def test_status(bed: Bed) -> None:
    assert await bed.other("STATUS") == Answer(0, None)
    assert (await bed.other("STATUS", {"ipam": {"type": "no-such-plugin"}})).exit_code != 0


async def test_gc_removes_what_is_not_valid(bed: Bed, netns: Namespace) -> None:
    container = Container(netns, "one", bed.configuration)
    await bed.add(container, "net1")
    await bed.add(container, "net2")
    other = Container(netns, "one", {**bed.configuration, "name": "red"})
    await bed.add(other, "net3")
    valid = {"cni.dev/valid-attachments": [{"containerID": "one", "ifname": "net2"}]}
    assert await bed.other("GC", valid) == Answer(0, None)
    owners = set(bed.node.outer.owners().values())
    assert owners == {"cni/blue/one/net2", "cni/red/one/net3"}
    assert await bed.other("GC", {"cni.dev/valid-attachments": []}) == Answer(0, None)
    assert await bed.other("GC", {"cni.dev/valid-attachments": []}) == Answer(0, None)
    assert set(bed.node.outer.owners().values()) == {"cni/red/one/net3"}
    await bed.call(other, "DEL", "net3")
    assert bed.left() == []


POD = "IgnoreUnknown=1;K8S_POD_NAMESPACE=default;K8S_POD_NAME=cnf;K8S_POD_INFRA_CONTAINER_ID=x"


async def test_a_late_del_leaves_the_port_of_the_pods_successor(
    bed: Bed, netns: Namespace, other_netns: Namespace
) -> None:
    """A pod of a StatefulSet has the name of the one before it, and so its port."""
    first = Container(netns, "sandbox-1", bed.configuration, POD)
    second = Container(other_netns, "sandbox-2", bed.configuration, POD)
    port = (await bed.add(first))["interfaces"][0]["name"]
    assert (await bed.call(second, "ADD")).code == 11
    assert (await bed.call(first, "DEL")).exit_code == 0
    assert (await bed.add(second))["interfaces"][0]["name"] == port
    assert (await bed.call(first, "DEL")).exit_code == 0
    assert (await bed.call(second, "CHECK")).exit_code == 0
    assert bed.node.outer.owners() == {port: "cni/blue/sandbox-2/net1"}
    await bed.call(second, "DEL")


@pytest.mark.parametrize("kind", ["memif", "vhost-user"])
async def test_sockets(bed: Bed, netns: Namespace, kind: str) -> None:
    container = Container(netns, "one", {**bed.configuration, "kind": kind}, POD)
    file = bed.folder / "device.json"
    told = {"runtimeConfig": {"CNIDeviceInfoFile": str(file), "mac": "02:00:00:00:00:07"}}
    result = await bed.add(container, **told)
    (pod,) = result["interfaces"]
    socket = bed.folder / "pods" / "default_cnf" / "net1.sock"
    assert pod == {
        "name": "net1",
        "mac": "02:00:00:00:00:07",
        "sandbox": container.path,
        "socketPath": str(socket),
    }
    info = json.loads(file.read_text())
    assert (info["type"], info["version"], info[kind]["path"]) == (kind, "1.1.0", str(socket))
    assert (
        info[kind]
        == {
            "memif": {"role": "slave", "mode": "ethernet", "path": str(socket)},
            "vhost-user": {"mode": "server", "path": str(socket)},
        }[kind]
    )
    (port,) = [row for row in await bed.node.port_list() if row["owner"]]
    assert port["kind"] == kind and str(socket) in port["attach"]["devargs"]
    if kind == "memif":  # there the node is the server
        assert socket.is_socket()
    assert (await bed.call(container, "CHECK", **told)).exit_code == 0
    assert (await bed.call(container, "DEL", **told)).exit_code == 0
    assert bed.left() == [] and not file.exists() and not socket.parent.exists()


@pytest.mark.parametrize("kind", ["memif", "vhost-user"])
async def test_packets_between_the_sockets_of_two_pods(
    bed: Bed, netns: Namespace, other_netns: Namespace, kind: str
) -> None:
    """The generator opens both pods' sockets, as their programs would, and counts both ways."""
    configuration = {**bed.configuration, "kind": kind, "network": "blue"}
    one = Container(netns, "one", configuration)
    two = Container(other_netns, "two", configuration)
    ports: dict[str, str] = {}
    devices: dict[str, str] = {}
    for container in (one, two):
        socket = (await bed.add(container))["interfaces"][0]["socketPath"]
        (row,) = [row for row in await bed.node.port_list() if socket in row["attach"]["devargs"]]
        ports[container.name] = row["name"]
        devices[container.name] = row["attach"]["devargs"]

    async def counted(pod: str) -> dict[str, int]:
        (row,) = [row for row in await bed.node.port_list() if row["name"] == ports[pod]]
        return {name: int(value) for name, value in row["statistics"].items()}

    def stream(source: str, target: str) -> StreamSpec:
        return StreamSpec(name="s", tx_port=source, rx_port=target, size=64, flows=10)

    async with TrafficProcess(cpu=bed.node.config.cores.vnf[0], memory_mb=128) as traffic:
        for number, pod in enumerate(devices):
            await traffic.add_port(pod, devices[pod].replace("{n}", str(number)), wait_link_s=10)
        for source, target in (("one", "two"), ("two", "one")):
            await traffic.configure([stream(source, target)])
            for _ in range(20):  # the switch may connect a socket later than the generator
                if (await traffic.trial(0.1, 1_000, drain_s=0.5, yield_core=True)).received:
                    break
            else:
                pytest.fail(f"no packet came from {source} to {target}")
            entered, left = await counted(source), await counted(target)
            result = await traffic.trial(0.5, 5_000, drain_s=0.5, yield_core=True)
            entered_after, left_after = await counted(source), await counted(target)
            assert entered_after["rx_packets"] - entered["rx_packets"] == result.sent
            assert left_after["tx_packets"] - left["tx_packets"] == result.received > 0
            dropped = left_after["tx_dropped"] - left["tx_dropped"]
            assert result.sent == result.received + dropped
            assert result.duplicated == result.misdelivered == result.reordered == 0
        await bed.call(two, "DEL")
        await traffic.configure([stream("one", "two")])
        try:
            after = (await traffic.trial(0.2, 5_000, drain_s=0.2, yield_core=True)).received
        except TrafficError as error:  # the driver may have seen that its peer has gone
            assert error.code == "link_down"
            after = 0
        assert after == 0
        await bed.call(one, "DEL")
    assert bed.left() == []


async def test_a_chain_passes_the_results_before_it_on(bed: Bed, netns: Namespace) -> None:
    container = Container(netns, "one", bed.configuration)
    earlier = {
        "cniVersion": "1.1.0",
        "interfaces": [{"name": "eth0", "sandbox": container.path, "mac": "02:00:00:00:00:01"}],
        "ips": [{"interface": 0, "address": "203.0.113.5/24"}],
        "dns": {"nameservers": ["203.0.113.1"]},
    }
    ipam = {"type": "static", "addresses": [{"address": "198.51.100.1/24"}]}
    result = await bed.add(container, prevResult=earlier, ipam=ipam)
    assert [one["name"] for one in result["interfaces"]][0::2] == ["eth0", "net1"]
    assert result["ips"] == [
        {"interface": 0, "address": "203.0.113.5/24"},
        {"interface": 2, "address": "198.51.100.1/24"},
    ]
    assert result["dns"] == {"nameservers": ["203.0.113.1"]}
    await bed.call(container, "DEL")


@pytest.mark.parametrize("version", ["0.3.1", "0.4.0", "1.0.0"])
async def test_results_have_the_version_that_was_asked_for(
    bed: Bed, netns: Namespace, version: str
) -> None:
    container = Container(netns, "one", {**bed.addressed(1), "cniVersion": version})
    result = await bed.add(container)
    assert result["cniVersion"] == version
    assert ("version" in result["ips"][0]) == version.startswith("0.")
    await bed.call(container, "DEL")


async def test_cnitool_of_the_cni_project(bed: Bed, netns: Namespace) -> None:
    """The project's own runtime reads a list of configurations, and keeps results for DEL."""
    plugin = {k: v for k, v in bed.addressed(1).items() if k not in ("cniVersion", "name")}
    listed = {"cniVersion": "1.1.0", "name": "blue", "plugins": [plugin]}
    (bed.folder / "net").mkdir()
    (bed.folder / "net" / "10-blue.conflist").write_text(json.dumps(listed))
    environment = {
        "PATH": os.environ["PATH"],
        "NETCONFPATH": str(bed.folder / "net"),
        "CNI_PATH": str(BUILT),
        "CNI_IFNAME": "net1",
    }

    async def tool(command: str) -> str:
        process = await asyncio.create_subprocess_exec(
            BUILT / "cnitool",
            command,
            "blue",
            f"/run/netns/{netns.name}",
            env=environment,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        stdout, stderr = await process.communicate()
        assert process.returncode == 0, (command, stdout, stderr)
        return stdout.decode()

    assert json.loads(await tool("add"))["ips"][0]["address"] == "198.51.100.1/24"
    assert "198.51.100.1/24" in netns.run("ip", "-brief", "addr", "show", "net1")
    await tool("check")
    await tool("status")
    await tool("del")
    assert bed.left() == []
