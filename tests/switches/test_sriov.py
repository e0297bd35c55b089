# SPDX-License-Identifier: Apache-2.0
"""The driver of an adapter's embedded switch: filters that tc reads, functions, and refusals."""

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.machine.processes import Supervisor
from headrace.switches import flower
from headrace.switches.base import PortKind, PortSpec, SwitchError, SwitchSettings
from headrace.switches.fields import FIELDS, VLAN_PRESENT
from headrace.switches.rules import FieldMatch, Output, PopVlan, PushVlan, Rule, SetField
from headrace.switches.sriov import SriovDriver
from tests.support.veth import VethPair
from tests.switches.cases import CASES, SETS, exact
from tests.switches.fake_nic import FakeNic

pytestmark = pytest.mark.root


def rule(*actions: object, match: dict[str, FieldMatch] | None = None) -> Rule:
    steps = tuple(Output(port=a) if isinstance(a, str) else a for a in actions)
    return Rule.model_validate(
        {"lsi": "l", "label": "g/r", "priority": 1, "in_port": "a", "match": match or {},
         "actions": steps}
    )  # fmt: skip


def text(made: Rule) -> list[str]:
    return list(flower.filters(made, lambda port: f"dev-{port}"))


def test_rules_become_filters() -> None:
    assert text(rule("b")) == ["protocol all flower action mirred egress redirect dev dev-b"]
    assert text(rule()) == ["protocol all flower action drop"]
    udp = CASES["udp_dst"].match
    tagged, plain = text(rule("b", match=udp))
    assert plain.startswith("protocol ip flower ip_proto udp dst_port 53 action")
    assert tagged.startswith("protocol 802.1q flower vlan_ethtype ip ip_proto udp dst_port 53")
    vlan = exact({"vlan_vid": VLAN_PRESENT | 7})
    (popped,) = text(rule(PopVlan(), "b", PushVlan(vlan_id=9), "c", match=vlan))
    assert popped == (
        "protocol 802.1q flower vlan_id 7 action vlan pop pipe action mirred egress mirror dev "
        "dev-b pipe action vlan push id 9 pipe action mirred egress redirect dev dev-c"
    )
    (untagged,) = text(rule("b", match=exact({"vlan_vid": 0})))
    assert untagged.startswith("protocol all flower num_of_vlans 0 ")
    both = exact({"eth_type": 0x0800, "ip_dscp": 46, "ip_ecn": 1})
    assert "ip_tos 0xb9/0xff" in text(rule("b", match=both))[1]


@pytest.mark.skipif(shutil.which("tc") is None, reason="tc is not installed (make setup)")
def test_tc_reads_every_filter() -> None:
    """What the kernel lacks is another error than what tc does not understand."""
    filters = [text(rule("b", match=CASES[name].match)) for name in flower.MATCHES]
    filters += [text(rule("b", match=CASES[name].masked()[0])) for name in flower.MASKS]
    for name in flower.SETS:
        base, value = SETS[name]
        filters.append(text(rule(SetField(field=name, value=value), "b", match=exact(base))))
    vlan = exact({"vlan_vid": VLAN_PRESENT | 7})
    filters.append(text(rule(PopVlan(), "b", PushVlan(vlan_id=9), "c", match=vlan)))
    with VethPair() as pair:
        for each in (one for some in filters for one in some):
            line = f"filter add dev {pair.near} ingress chain 1 pref 1 {each}"
            line = line.replace("dev-b", pair.far).replace("dev-c", pair.far)
            done = subprocess.run(
                ["tc", "-batch", "-"], input=line, capture_output=True, text=True, check=False
            )
            said = done.stderr.strip().splitlines()
            kernel = all(
                words in ("We have an error talking to the kernel",)
                or words.startswith(("RTNETLINK answers", "Error: ", "Command failed -"))
                for words in said
            )
            assert done.returncode == 0 or kernel, (line, done.stderr)
    assert set(flower.MATCHES) <= set(FIELDS)


@pytest.fixture
def nic(tmp_path: Path) -> Iterator[FakeNic]:
    with FakeNic(tmp_path, 1) as made:
        yield made


def driver(nic: FakeNic, rundir: Path, **options: str) -> SriovDriver:
    settings = SwitchSettings(
        rundir=rundir, prefix="hr12ab", cores=(1,), control_cores=(0,), memory_mb=1,
        hugepages=False, options={"pf": nic.pf, "sysfs": str(nic.sysfs), **options},
    )  # fmt: skip
    return SriovDriver(settings, Supervisor(rundir))


async def test_a_function_has_its_name_back(nic: FakeNic, rundir: Path) -> None:
    made = driver(nic, rundir)
    assert await made.start() is False
    (function,) = made._nic.functions()
    await made.create_lsi("l")
    one, two = (PortSpec(name=name, kind=PortKind.VETH) for name in ("one", "two"))
    await made.add_port("l", one)
    attached = made.attach(one).iface
    assert [each.interface for each in made._nic.functions()] == [attached]
    with pytest.raises(SwitchError, match=r"two.*no free virtual function; it has 1"):
        await made.add_port("l", two)
    wire = PortSpec(name=nic.pf, kind=PortKind.SYSTEM)
    await made.add_port("l", wire)
    assert await made.missing(["one", nic.pf, "x"]) == {"x"}
    await made.stop()
    assert made._nic.functions() == [function] and nic.devices == {}


async def test_filters_are_the_adapters_alone_unless_told(nic: FakeNic, rundir: Path) -> None:
    for offload, skipped in (("required", True), ("preferred", False)):
        made = driver(nic, rundir, offload=offload)
        await made.start()
        await made.create_lsi("l")
        await made.add_port("l", PortSpec(name=nic.pf, kind=PortKind.SYSTEM))
        nic.commands.clear()
        drop = Rule(lsi="l", label="g/r", priority=1, in_port=nic.pf)
        await made.install_rules("l", [drop])
        filters = [each for each in nic.commands if each.startswith("filter add")]
        assert filters and all(("flower skip_sw" in each) is skipped for each in filters)
        await made.stop()


@pytest.mark.parametrize(
    ("options", "words"),
    [({"offload": "no"}, "required or preferred"), ({"pff": "x"}, "there are pf and offload")],
)
def test_wrong_options_are_named(
    nic: FakeNic, rundir: Path, options: dict[str, str], words: str
) -> None:
    with pytest.raises(SwitchError, match=words):
        driver(nic, rundir, **options)


async def test_an_adapter_that_cannot_steer_says_what_to_do(nic: FakeNic, rundir: Path) -> None:
    with pytest.raises(SwitchError, match="no interface nosuch"):
        await driver(nic, rundir, pf="nosuch").start()
    (nic.sysfs / "class/net" / nic.pf / "phys_switch_id").unlink()
    with pytest.raises(SwitchError, match="mode switchdev"):
        await driver(nic, rundir).start()
