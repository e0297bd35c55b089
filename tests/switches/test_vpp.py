# SPDX-License-Identifier: Apache-2.0
"""The driver of VPP: what rules become, ports of all kinds, and what goes wrong, in words."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.machine.processes import Supervisor, gone
from headrace.switches.base import PortKind, PortSpec, SwitchError, SwitchSettings
from headrace.switches.fields import VLAN_PRESENT
from headrace.switches.rules import Output, PopVlan, PushVlan, Rule
from headrace.switches.vpp import VppDriver, Wiring, wiring_of
from headrace.switches.vpp_process import startup_conf
from tests.switches.beds import fake_vpp_program
from tests.switches.cases import exact
from tests.switches.fake_vpp import FakeVpp, read_conf

PREFIX = f"hr{os.getpid()}"
POP, PUSH = PopVlan(), PushVlan(vlan_id=9)


def rule(source: str, *actions: str | PopVlan | PushVlan, vlan: int | None = None) -> Rule:
    match = {} if vlan is None else exact({"vlan_vid": VLAN_PRESENT | vlan if vlan else 0})
    steps = tuple(Output(port=a) if isinstance(a, str) else a for a in actions)
    return Rule(
        lsi="l", label=f"g/{source}", priority=1, in_port=source, match=match, actions=steps
    )


def test_rules_become_cross_connects() -> None:
    rules = [rule("a", "b"), rule("b", PUSH, "c"), rule("c", POP, "b", vlan=9), rule("d")]
    whole: Wiring = wiring_of(rules)
    assert whole.connects == {
        ("a", None): ("b", None),
        ("b", None): ("c", 9),
        ("c", 9): ("b", None),
    }
    assert whole.rewrites == {("c", 9): True}
    assert wiring_of([rule("a", "b", vlan=0)]).connects == {("a", 0): ("b", None)}
    assert wiring_of([rule("a", POP, PUSH, "b", vlan=5)]).rewrites == {
        ("a", 5): True,
        ("b", 9): True,
    }


@pytest.mark.parametrize(
    ("rules", "words"),
    [
        ([rule("a", "b", vlan=9), rule("c", PUSH, "a")], "tag 9 on port a"),
        ([rule("a", POP, "b")], "only the one tag"),
        ([rule("a", POP, POP, "b", vlan=9)], "only the one tag"),
        ([rule("a", PUSH, PUSH, "b")], "one tag"),
    ],
)
def test_what_a_sub_interface_cannot_do_names_the_rule(rules: list[Rule], words: str) -> None:
    with pytest.raises(SwitchError, match=f"g/.*{words}"):
        wiring_of(rules)


@pytest.fixture
def vpp(rundir: Path) -> Iterator[FakeVpp]:
    rundir.mkdir(exist_ok=True)
    with FakeVpp(rundir / "api.sock") as fake:
        yield fake


def driver(rundir: Path, **options: str) -> VppDriver:
    settings = SwitchSettings(
        rundir=rundir, prefix=PREFIX, cores=(1,), control_cores=(0,), memory_mb=1,
        hugepages=False, options=options or {"socket": str(rundir / "api.sock")},
    )  # fmt: skip
    return VppDriver(settings, Supervisor(rundir))


def _shared_memory() -> list[Path]:
    return list(Path("/dev/shm").glob(f"{PREFIX}-*"))


async def test_ports_of_dpdk_programs(vpp: FakeVpp, rundir: Path) -> None:
    made = driver(rundir)
    assert await made.start() is False
    await made.create_lsi("l")
    memif = PortSpec(name="m", kind=PortKind.MEMIF, options={"socket": "/run/m.sock", "id": "3"})
    vhost = PortSpec(name="v", kind=PortKind.VHOST_USER, options={"path": "/run/v.sock"})
    for port in (memif, vhost):
        await made.add_port("l", port)
        await made.add_port("l", port)
        assert made.attach(port).devargs
    asked = dict(vpp.requests)
    assert asked["memif_create_v2"]["role"] == 0 and asked["memif_create_v2"]["id"] == 3
    assert vpp.memif_sockets == {1: "/run/m.sock"}
    assert asked["create_vhost_user_if_v2"]["sock_filename"] == "/run/v.sock"
    await made.install_rules("l", [rule("m", "v"), rule("v", "m")])
    assert {one.target for one in vpp.interfaces.values()} == vpp.interfaces.keys()
    assert (await made.version()).startswith("vpp 25.10")
    await made.stop()
    assert vpp.interfaces == {} and vpp.memif_sockets == {}


async def test_a_vpp_that_was_started_again_is_filled(rundir: Path) -> None:
    socket = rundir / "api.sock"
    port = PortSpec(name="v", kind=PortKind.VHOST_USER, options={"path": "/run/v.sock"})
    made = driver(rundir)
    with FakeVpp(socket):
        await made.start()
        await made.create_lsi("l")
        await made.add_port("l", port)
        assert await made.missing(["v"]) == set()
    socket.unlink()
    with pytest.raises(SwitchError, match="vpp"):
        await asyncio.wait_for(made.missing(["v"]), 60)
    with FakeVpp(socket) as fresh:
        assert await made.missing(["v"]) == {"v"}
        await made.add_port("l", port)
        assert len(fresh.interfaces) == 1
        await made.stop()


async def test_down_removes_what_another_process_has_made(vpp: FakeVpp, rundir: Path) -> None:
    made = driver(rundir)
    await made.start()
    await made.create_lsi("l")
    port = PortSpec(name="v", kind=PortKind.VHOST_USER, options={"path": "/run/v.sock"})
    await made.add_port("l", port)
    await made.close()
    await driver(rundir).stop()
    assert vpp.interfaces == {}


async def test_a_vpp_of_the_nodes_own_starts_is_adopted_and_leaves_nothing(rundir: Path) -> None:
    port = PortSpec(name="v", kind=PortKind.VHOST_USER, options={"path": "/run/v.sock"})
    os.makedirs(rundir / "bin")
    program = str(fake_vpp_program(rundir / "bin"))
    made = driver(rundir, program=program)
    try:
        assert made.watched() == made.processes() == ("switch",)
        assert await made.start() is False
        await made.create_lsi("l")
        await made.add_port("l", port)
        await made.close()
        again = driver(rundir, program=program)
        assert await again.start() is True
        (process,) = Supervisor(rundir).all().values()
        process.signal(signal.SIGKILL)
        assert await gone(process, 10)
        assert await again.start() is False
        assert await again.missing(["v"]) == {"v"}
        assert _shared_memory()
    finally:
        await driver(rundir, program=program).stop()
    assert Supervisor(rundir).all() == {}
    assert "vpp" not in os.listdir(rundir) and not _shared_memory()


def test_the_configuration_of_a_vpp_of_the_nodes_own(rundir: Path) -> None:
    settings = driver(rundir).settings
    conf = read_conf(startup_conf(settings, rundir / "vpp"))
    assert conf["cpu"] == {"main-core": "0", "corelist-workers": "1"}
    assert conf["socksvr"] == {"socket-name": f"{rundir}/vpp/api.sock"}
    assert conf["buffers"]["page-size"] == "default"
    assert "poll-sleep-usec" not in conf["unix"]
    more = {"cores": (0, 2), "hugepages": True, "max_sleep_us": 250, "memory_mb": 1024}
    conf = read_conf(startup_conf(settings.model_copy(update=more), rundir / "vpp"))
    assert conf["cpu"] == {"main-core": "0", "corelist-workers": "2"}
    assert conf["buffers"] == {"buffers-per-numa": "209715", "page-size": "default-hugepage"}
    assert conf["memory"] == {"main-heap-size": "512M"}
    assert conf["unix"]["poll-sleep-usec"] == "250"


async def test_why_a_vpp_of_the_nodes_own_does_not_start(rundir: Path) -> None:
    with pytest.raises(SwitchError, match="there is no program no-vpp"):
        await driver(rundir, program="no-vpp").start()
    os.makedirs(rundir, exist_ok=True)
    bad = rundir / "vpp-bad"
    bad.write_text("#!/bin/sh\necho no memory >&2\nexit 1\n")
    bad.chmod(0o755)
    with pytest.raises(SwitchError, match="no memory"):
        await driver(rundir, program=str(bad)).start()
    with pytest.raises(SwitchError, match="either socket"):
        driver(rundir, program="vpp", socket="/run/api.sock")


async def test_what_is_not_there_is_said(rundir: Path) -> None:
    with pytest.raises(SwitchError, match=r"no VPP answers on .*none\.sock.*socksvr"):
        await driver(rundir, socket=str(rundir / "none.sock")).start()
    with pytest.raises(SwitchError, match=r"switch_options\.sockt"):
        driver(rundir, sockt="x")


async def test_a_message_that_vpp_lacks_is_named(vpp: FakeVpp, rundir: Path) -> None:
    made = driver(rundir)
    with pytest.raises(SwitchError, match="no message no_such_thing"):
        await made._api.call("no_such_thing")
    await made.close()
