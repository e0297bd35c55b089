# SPDX-License-Identifier: Apache-2.0
"""A virtual machine on every kind of port that the switch has for one; all packets are counted.

One guest serves all tests of this file, for a boot takes longer than any of them. Its ports:

| pair | the switch's | the guest's |
|---|---|---|
| client | dpdkvhostuserclient (QEMU makes the socket) | eth0, eth1 |
| server | dpdkvhostuser (the switch makes it) | eth2, eth3 |
| packed | dpdkvhostuserclient, packed rings | eth4, eth5 |
| tap | system, on kernel interfaces whose rings QEMU serves | eth6, eth7 |
| shm | Headrace ports: their region is an ivshmem device | no NIC |

The last tests take the switch and then the guest away.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import pytest_asyncio

from headrace.engines.qemu import Device, SharedMemory, Tap, VhostUser, pci_address
from headrace.engines.shared_memory import AttachError, attached
from headrace.machine.programs import find_program
from tests.guest.bed import PER_DIRECTION, Bed, eventually, running_bed
from tests.guest.guest import Guest, add_vnf, base_image, require_guest, wire
from tests.support.daemon import Daemon

pytestmark = [
    pytest.mark.root,
    pytest.mark.dpdk,
    pytest.mark.asyncio(loop_scope="module"),
]

PACKETS = 2 * PER_DIRECTION
TAP_QUEUE = 4096  # holds a whole trial
SHM = ("s0", "s1")
PASS = "headrace-port-pass"
RING_PACKED = 34  # VIRTIO_F_RING_PACKED, of a device's features

_numbers = itertools.count()


@dataclass
class Wired:
    """The bed and the guest on it."""

    bed: Bed
    guest: Guest
    pairs: dict[str, tuple[str, str]]
    interfaces: dict[str, str]  # of the guest, by the switch's port
    shm: str  # the ivshmem device's directory in the guest

    def in_guest(self, port: str, counter: str) -> int:
        """A counter of the guest's interface behind the switch's `port`."""
        return self.guest.counter(self.interfaces[port], counter)

    async def join(self, pair: str) -> tuple[str, str]:
        """Steers the generator's ports to those of a pair."""
        await self.bed.join(*self.pairs[pair])
        return self.pairs[pair]

    async def all_pass(self) -> None:
        """Everything that is sent comes back, once and in order."""
        result = await self.bed.trial()
        assert result.sent == result.received == PACKETS, await self.bed.everything()
        assert result.duplicated == result.reordered == result.misdelivered == 0


@contextmanager
def tap_interface() -> Iterator[str]:
    """A tap interface that is up, without IPv6 noise."""
    name = f"hrt{os.getpid() % 1_000_000}{next(_numbers)}"

    def ip(*words: str) -> None:
        subprocess.run(["/usr/sbin/ip", *words], check=True, capture_output=True)

    ip("tuntap", "add", name, "mode", "tap")
    try:
        Path(f"/proc/sys/net/ipv6/conf/{name}/disable_ipv6").write_text("1")
        ip("link", "set", name, "up", "txqueuelen", str(TAP_QUEUE))
        yield name
    finally:
        subprocess.run(["/usr/sbin/ip", "link", "del", name], check=False, capture_output=True)


def burst_test() -> Path:
    """The unit test of the port library's vector variants."""
    return find_program("headrace-switch").parents[1] / "shm" / "shm_burst_test"


async def vhost_users(bed: Bed) -> list[Device]:
    """The ports v0 to v5 and their devices."""
    devices: list[Device] = []
    for number in range(6):
        name = f"v{number}"
        listens = number not in (2, 3)
        path = bed.switch.rundir / (f"{name}.sock" if listens else name)
        if listens:
            await bed.add(name, "dpdkvhostuserclient", f"options:vhost-server-path={path}")
        else:
            await bed.add(name, "dpdkvhostuser")
        mac = f"02:00:00:00:01:{number:02x}"
        devices.append(VhostUser(path, mac, listens=listens, packed=number >= 4))
    return devices


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def wired() -> AsyncIterator[Wired]:
    kernel = require_guest()
    image = base_image(kernel)
    add_vnf(image)
    image.add_program(find_program("headrace-switch").parents[1] / "shm" / PASS)
    if burst_test().exists():
        image.add_program(burst_test())
    with ExitStack() as stack:
        taps = [stack.enter_context(tap_interface()) for _ in range(2)]
        async with running_bed() as bed:
            devices = await vhost_users(bed)
            devices += [Tap(name, f"02:00:00:00:02:{i:02x}") for i, name in enumerate(taps)]
            for name in SHM:
                await bed.add(
                    name, "shm", "options:group=vm", "options:ivshmem=true", "options:buffers=4096"
                )
            with attached(bed.switch.rundir / "vm.shm", *SHM) as attachment:
                devices.append(SharedMemory(attachment.region, attachment.size))
                guest = Guest(
                    bed.switch.rundir,
                    kernel,
                    image,
                    devices,
                    memory_mb=384,
                    command_line="hugepages=64",
                    inherit=attachment.descriptors,
                )
            pairs = {
                "client": ("v0", "v1"),
                "server": ("v2", "v3"),
                "packed": ("v4", "v5"),
                "tap": (taps[0], taps[1]),
                "shm": SHM,
            }
            names = [name for pair in ("client", "server", "packed", "tap") for name in pairs[pair]]
            interfaces = {name: f"eth{number}" for number, name in enumerate(names)}
            shm = f"/sys/bus/pci/devices/{pci_address(len(devices) - 1)}"
            try:
                await asyncio.to_thread(guest.boot)
                for number, pair in enumerate(("client", "server", "packed", "tap")):
                    nics = [interfaces[name] for name in pairs[pair]]
                    await asyncio.to_thread(wire, guest, f"br{number}", *nics)
                guest.run(f"echo 1 >{shm}/enable")
                for name in taps:
                    await bed.add(name, "system")
                yield Wired(bed, guest, pairs, interfaces, shm)
            finally:
                guest.stop()


@pytest.mark.parametrize("pair", ["client", "server", "packed", "tap"])
async def test_the_guest_forwards_every_packet(wired: Wired, pair: str) -> None:
    names = await wired.join(pair)
    before = {name: await wired.bed.counters(name) for name in names}
    in_guest = {n: wired.in_guest(n, "rx_packets") for n in names}
    await wired.all_pass()
    for name in names:
        after = await wired.bed.counters(name)
        assert after["rx_packets"] - before[name]["rx_packets"] == PER_DIRECTION
        assert after["tx_packets"] - before[name]["tx_packets"] == PER_DIRECTION
        assert wired.in_guest(name, "rx_packets") - in_guest[name] == PER_DIRECTION


@pytest.mark.skipif(not Path("/dev/vhost-net").exists(), reason="this kernel has no vhost-net")
async def test_the_kernel_serves_a_guest_itself() -> None:
    """The same tap, its rings served by vhost-net; a guest of its own."""
    kernel = require_guest()
    with tap_interface() as first, tap_interface() as second:
        async with running_bed() as bed:
            devices = [
                Tap(name, f"02:00:00:00:03:{number:02x}", vhost=True)
                for number, name in enumerate((first, second))
            ]
            guest = Guest(bed.switch.rundir, kernel, base_image(kernel), devices)
            try:
                await asyncio.to_thread(guest.boot)
                await asyncio.to_thread(wire, guest, "br0", "eth0", "eth1")
                for name in (first, second):
                    await bed.add(name, "system")
                await bed.join(first, second)
                result = await bed.trial()
                assert result.sent == result.received == PACKETS, await bed.everything()
            finally:
                guest.stop()


async def test_rings_are_packed_where_they_should_be(wired: Wired) -> None:
    for name, interface in wired.interfaces.items():
        features = wired.guest.run(f"cat /sys/class/net/{interface}/device/features").strip()
        assert features[RING_PACKED] == ("1" if name in wired.pairs["packed"] else "0"), name


async def test_what_is_too_much_for_the_guest_is_counted_where_it_is_lost(wired: Wired) -> None:
    first, second = await wired.join("client")
    names = ("a", "b", first, second)
    before = {name: await wired.bed.counters(name) for name in names}
    in_guest = {n: wired.in_guest(n, "rx_packets") for n in (first, second)}
    result = await wired.bed.trial(40_000, 400_000, drain_s=3.0)
    after = {name: await wired.bed.counters(name) for name in names}

    def grown(name: str, counter: str) -> int:
        return after[name].get(counter, 0) - before[name].get(counter, 0)

    assert result.lost > 0, "a guest under TCG does not take this"
    taken = grown("a", "rx_packets") + grown("b", "rx_packets")
    assert taken == result.sent
    refused = grown(first, "tx_dropped") + grown(second, "tx_dropped")
    to_guest = grown(first, "tx_packets") + grown(second, "tx_packets")
    assert to_guest + refused == taken
    got = sum(wired.in_guest(n, "rx_packets") - in_guest[n] for n in (first, second))
    assert got == to_guest
    back = grown(first, "rx_packets") + grown(second, "rx_packets")
    assert back == got, "the guest's bridge drops nothing"
    refused_last = grown("a", "tx_dropped") + grown("b", "tx_dropped")
    assert result.received + refused_last == back
    assert result.duplicated == result.misdelivered == 0


async def test_the_port_library_checks_descriptors_on_this_processor_too(wired: Wired) -> None:
    """Each variant that the guest's processor, an emulated one without KVM, says that it has."""
    if not burst_test().exists():
        pytest.skip(f"{burst_test().name} is not built (ninja -C build)")
    told = wired.guest.run(burst_test().name, timeout_s=120.0)
    assert "[  PASSED  ]" in told
    flags = wired.guest.run("grep -m 1 flags /proc/cpuinfo").split()
    for flag, variant in (("avx2", "avx2"), ("avx512f", "avx512")):
        assert (f"/{variant} " in told) == (flag in flags), "chosen by what the processor has"


def start_pass(wired: Wired) -> Callable[[], dict[str, list[int]]]:
    """Starts the VNF in C on the region; what is returned ends it and reads what it passed on."""
    command = f"{PASS} --memory {wired.shm}/resource2 {' '.join(SHM)}"
    wired.guest.run(f"{command} >/tmp/out 2>/tmp/err &")
    # One that did not start, or died, would only be seen as the loss of all packets.
    wired.guest.run(f"sleep 0.5; killall -0 {PASS} || {{ cat /tmp/err; exit 1; }}")

    def end() -> dict[str, list[int]]:
        wired.guest.run(f"killall {PASS}; while killall -0 {PASS} 2>/dev/null; do :; done")
        passed: dict[str, list[int]] = json.loads(wired.guest.run("cat /tmp/out"))
        return passed

    return end


async def test_a_program_in_c_passes_packets_in_shared_memory(wired: Wired) -> None:
    end = start_pass(wired)
    await wired.join("shm")
    region = wired.bed.switch.rundir / "vm.shm"
    with pytest.raises(AttachError, match="busy"), attached(region, SHM[0]):
        pass
    await wired.all_pass()
    for name in SHM:
        counters = await wired.bed.counters(name)
        assert counters["rx_packets"] == counters["tx_packets"] == PER_DIRECTION
    passed = end()
    assert passed["packets"] == [PER_DIRECTION, PER_DIRECTION]
    assert passed["octets"] == [(await wired.bed.counters(name))["tx_bytes"] for name in SHM]


def start_vnf(wired: Wired, name: str, config: dict[str, object]) -> None:
    """Starts headrace-vnf in the guest, with its files in /tmp/`name`.*."""
    wired.guest.write(f"/tmp/{name}.json", json.dumps({"idle": "sleep", **config}))
    log = f"/tmp/{name}.log"
    wired.guest.run(f"headrace-vnf pass --config /tmp/{name}.json >{log} 2>&1 &")
    running = f"grep -q 'pass is running' {log}"
    wired.guest.run(f"for i in $(seq 200); do {running} && break; sleep 0.1; done; {running}")


async def test_headrace_vnf_in_the_guest_on_shared_memory(wired: Wired) -> None:
    ports = [
        {"name": name, "shm": {"memory": f"{wired.shm}/resource2", "port": name}} for name in SHM
    ]
    start_vnf(wired, "shm", {"eal": {"memory_mb": 64, "hugepages": "off"}, "ports": ports})
    await wired.join("shm")
    await wired.all_pass()


async def test_headrace_vnf_in_the_guest_on_virtio_nics(wired: Wired) -> None:
    """It drives the NICs of a pair itself: they are taken from the guest's kernel."""
    numbers = [int(wired.interfaces[name].removeprefix("eth")) for name in wired.pairs["server"]]
    nics = [pci_address(number) for number in numbers]
    for nic in nics:
        device = f"/sys/bus/pci/devices/{nic}"
        wired.guest.run(f"echo uio_pci_generic >{device}/driver_override")
        wired.guest.run(f"echo {nic} >{device}/driver/unbind")
        wired.guest.run(f"echo {nic} >/sys/bus/pci/drivers_probe")
    ports = [{"name": str(number), "devargs": nic} for number, nic in enumerate(nics)]
    start_vnf(
        wired, "nics", {"eal": {"memory_mb": 64}, "ports": ports, "function": {"mac": "swap"}}
    )
    await wired.join("server")
    await wired.all_pass()


async def test_a_killed_switch_comes_back_to_a_running_guest(wired: Wired) -> None:
    uptime = float(wired.guest.run("cat /proc/uptime").split()[0])
    await wired.join("client")
    await wired.bed.restart_switch()
    # Not the packed rings: where in them a killed back end was, QEMU 7.2 can't tell its successor.
    for pair in ("client", "server", "tap"):
        await wired.join(pair)
        await wired.all_pass()
    assert float(wired.guest.run("cat /proc/uptime").split()[0]) > uptime, "it was not restarted"


async def test_a_lost_guest_leaks_no_buffer() -> None:
    """QEMU is killed with a VNF in it: another user of its ports gets all of the region."""
    kernel = require_guest()
    image = base_image(kernel)
    image.add_program(find_program("headrace-switch").parents[1] / "shm" / PASS)
    async with running_bed() as bed:
        for name in SHM:
            await bed.add(
                name, "shm", "options:group=vm", "options:ivshmem=true", "options:buffers=4096"
            )
        region = bed.switch.rundir / "vm.shm"
        with attached(region, *SHM) as attachment:
            device = SharedMemory(attachment.region, attachment.size)
            guest = Guest(
                bed.switch.rundir, kernel, image, [device], inherit=attachment.descriptors
            )
        try:
            await asyncio.to_thread(guest.boot)
            shm = f"/sys/bus/pci/devices/{pci_address(0)}"
            wired = Wired(bed, guest, {"shm": SHM}, {}, shm)
            guest.run(f"echo 1 >{shm}/enable")
            start_pass(wired)
            await wired.join("shm")
            await wired.all_pass()
        finally:
            guest.stop()
        await eventually(lambda: not bed.switch.port(SHM[0])["link_up"])
        config = bed.switch.rundir / "vnf.json"
        ports = [{"name": n, "shm": {"socket": str(region), "port": n}} for n in SHM]
        config.write_text(
            json.dumps({"eal": {"memory_mb": 64, "hugepages": "off"}, "ports": ports})
        )
        program = find_program("headrace-vnf")
        vnf = Daemon([program, "pass", "--config", config], bed.switch.rundir / "vnf.log")
        try:
            await wired.join("shm")
            # More than the region has buffers: the guest's are among them.
            for _ in range(3):
                await wired.all_pass()
        finally:
            vnf.stop(signal.SIGKILL)


async def test_a_region_that_fits_no_bar_is_refused() -> None:
    async with running_bed() as bed:
        await bed.add("s0", "shm", "options:group=vm", "options:buffers=5000")
        with (
            pytest.raises(AttachError, match="ivshmem=true"),
            attached(bed.switch.rundir / "vm.shm", "s0"),
        ):
            pass
        with (
            pytest.raises(AttachError, match=r"port s7 .*No such file"),
            attached(bed.switch.rundir / "vm.shm", "s7"),
        ):
            pass
