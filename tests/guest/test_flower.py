# SPDX-License-Identifier: Apache-2.0
"""What the driver of SR-IOV adapters says to tc, said to a kernel that has flower: a guest's.

This machine's kernel may have none. In the guest the representors are ends of veth pairs, and the
kernel does what an adapter would.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from headrace.machine.processes import Supervisor
from headrace.switches import flower
from headrace.switches.base import PortKind, PortSpec, SwitchSettings
from headrace.switches.fields import VLAN_PRESENT
from headrace.switches.rules import FieldMatch, Output, PopVlan, PushVlan, Rule, SetField
from headrace.switches.sriov import SriovDriver
from tests.guest.guest import Guest, base_image, require_guest
from tests.switches.cases import CASES, SETS, exact
from tests.switches.fake_nic import FakeNic

TC = shutil.which("tc")
MODULES = (
    "veth", "sch_ingress", "cls_flower", "act_gact", "act_mirred", "act_vlan", "act_pedit",
    "act_csum",
)  # fmt: skip

pytestmark = [
    pytest.mark.root,
    pytest.mark.full,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes network interfaces"),
    pytest.mark.skipif(TC is None, reason="tc is not installed (make setup)"),
]


def rule(number: int, *actions: object, match: dict[str, FieldMatch] | None = None) -> Rule:
    return Rule.model_validate(
        {"lsi": "l", "label": f"g/{number}", "priority": 1000 - number, "in_port": "a",
         "match": match or {}, "actions": actions}
    )  # fmt: skip


def everything() -> list[Rule]:
    """A rule for each match, mask, field that is set, and for tags and copies."""
    to_b, to_c = Output(port="b"), Output(port="c")
    matches = [CASES[name].match for name in flower.MATCHES]
    matches += [CASES[name].masked()[0] for name in flower.MASKS]
    rules = [rule(number, to_b, match=match) for number, match in enumerate(matches)]
    for name in flower.SETS:
        base, value = SETS[name]
        change = SetField(field=name, value=value)
        rules.append(rule(100 + len(rules), change, to_b, match=exact(base)))
    tagged = exact({"vlan_vid": VLAN_PRESENT | 7})
    rules.append(rule(300, PopVlan(), to_b, PushVlan(vlan_id=9), to_c, match=tagged))
    rules.append(rule(301, to_b, match=exact({"vlan_vid": 0})))
    return rules


@contextmanager
def commands_of(place: Path) -> Iterator[list[list[str]]]:
    """What the driver says to tc for ports, then for each of three versions of the rules.

    The representors are called a, b and c in it.
    """
    import asyncio

    async def say(nic: FakeNic) -> list[list[str]]:
        settings = SwitchSettings(
            rundir=place, prefix="hr12ab", cores=(1,), control_cores=(0,), memory_mb=1,
            hugepages=False,
            options={"pf": nic.pf, "sysfs": str(nic.sysfs), "offload": "preferred"},
        )  # fmt: skip
        driver = SriovDriver(settings, Supervisor(place))
        await driver.start()
        await driver.create_lsi("l")
        for name in "abc":
            await driver.add_port("l", PortSpec(name=name, kind=PortKind.VETH))
        devices = {driver._device(driver._state.ports[name]): name for name in "abc"}
        said, rules = [list(nic.commands)], everything()
        back = Rule(
            lsi="l", label="g/b", priority=1, in_port="b", actions=(Output(port="a"),)
        )  # fmt: skip
        for version in ([rule(0, Output(port="b")), back], rules, [rule(0, Output(port="c"))]):
            nic.commands.clear()
            old = list(driver._state.rules.values())
            await driver.install_rules("l", version)
            kept = {each.identity for each in version}
            await driver.remove_rules("l", [r for r in old if r.identity not in kept])
            said.append(list(nic.commands))
        await driver.stop()
        for device, name in devices.items():
            said = [[line.replace(f"dev {device}", f"dev {name}") for line in s] for s in said]
        return said

    (place / "sys").mkdir()
    with FakeNic(place / "sys", 3) as nic:
        yield asyncio.run(say(nic))


def test_a_kernel_takes_and_obeys_what_the_driver_says(tmp_path: Path) -> None:
    assert TC is not None
    kernel = require_guest()
    image = base_image(kernel, *MODULES)
    # By their places, since busybox has a tc and an ip of its own.
    tc = Path(TC).resolve()
    image.add_program(tc)
    ip = Path(shutil.which("ip") or "/usr/sbin/ip").resolve()
    image.add_program(ip)
    with commands_of(tmp_path) as said:
        for number, lines in enumerate(said):
            # Deletions of what is not there are the driver's to forgive.
            image.add(f"/said{number}", "".join(f"{line}\n" for line in lines).encode())
    guest = Guest(tmp_path, kernel, image, [])
    try:
        guest.boot()
        for name in "abc":
            guest.run(f"{ip} link add name {name} type veth peer name {name}{name}")
            for end in (name, name * 2):
                guest.run(f"echo 1 >/proc/sys/net/ipv6/conf/{end}/disable_ipv6")
                guest.run(f"{ip} link set dev {end} up")
        guest.run(f"{ip} addr add 10.9.0.1/24 dev aa")

        def say(number: int) -> None:
            # -force: it goes on after a refusal; each line that adds something must be taken.
            output = guest.run(f"{tc} -force -batch /said{number} 2>&1 || true", 120)
            assert "Usage" not in output
            refused = [line for line in output.splitlines() if line.startswith("Command failed")]
            deletions = [
                number_of
                for number_of, line in enumerate(said[number], 1)
                if line.startswith("filter del")
            ]
            failed = {int(line.rsplit(":", 1)[1]) for line in refused}
            assert failed <= set(deletions), output

        def ask() -> tuple[int, int]:
            """Frames out of b and c while three ARP requests go into a."""
            before = [guest.counter(end, "rx_packets") for end in ("bb", "cc")]
            guest.run("arping -c 3 -w 4 -I aa 10.9.0.9 >/dev/null || true", 30)
            after = [guest.counter(end, "rx_packets") for end in ("bb", "cc")]
            return after[0] - before[0], after[1] - before[1]

        say(0)
        say(1)
        out_b, out_c = ask()
        assert out_b >= 3 and out_c == 0
        say(2)
        out_b, out_c = ask()
        assert out_b >= 3 and out_c == 0
        say(3)
        out_b, out_c = ask()
        assert out_b == 0 and out_c >= 3
    finally:
        guest.stop()
