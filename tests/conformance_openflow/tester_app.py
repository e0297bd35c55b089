# SPDX-License-Identifier: Apache-2.0
"""os-ken's switch tester with a few changes, so that it measures the target and not itself.

* Each test's outcome is appended to a file as one line of JSON, with the rates of throughput tests
  as shares of what they are to be.
* A selection of tests can be run, and the duration of the throughput tests can be lowered.
* Packets of throughput tests are serialised once and sent by an absolute schedule. The original
  serialises each again and sleeps between, and does not reach the rates that it asks for.
* Once the tester switch has its flow to the controller anew, its datapath is purged. Open vSwitch
  brings datapath flows up to date later than it answers the barrier, and until then one that refers
  to the deleted flow drops what a quick target sends.

What is tested, and what passes, is os-ken's alone. Run as a program by run.py:
`python -m tests.conformance_openflow.tester_app CONFIG.json`.
"""

import json
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any

os.environ["OSKEN_HUB_TYPE"] = "eventlet"

import eventlet  # type: ignore[import-untyped]

eventlet.monkey_patch()

# isort: split
from os_ken import cfg, log  # noqa: E402
from os_ken.base.app_manager import AppManager  # noqa: E402
from os_ken.lib import hub  # noqa: E402
from os_ken.lib.packet import sctp  # noqa: E402
from os_ken.tests.switch import tester  # noqa: E402

RANDOM_PACKETS = 3000
TICK_S = 0.005


def correct_sctp() -> None:
    """Makes os-ken's SCTP checksum what RFC 4960 says."""
    of_text = sctp.sctp._checksum

    def of_octets(self: Any, data: bytearray) -> Any:
        # The original walks str(data); a str of the same octets is its own text.
        return of_text(self, data.decode("latin-1"))

    sctp.sctp._checksum = of_octets


def purge(control: str) -> None:
    """Makes an ovs-vswitchd forget its datapath flows, by its control socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(control)
        connection.sendall(b'{"id": 0, "method": "revalidator/purge", "params": []}')
        answer = json.loads(connection.recv(65536))
    if answer["error"] is not None:
        raise RuntimeError(f"revalidator/purge: {answer['error']}")


def settings() -> dict[str, Any]:
    """The program's configuration file, which run.py writes."""
    return dict(json.loads(Path(sys.argv[1]).read_text()))


class RecordingTester(tester.OfTester):  # type: ignore[misc]
    """The tester; see the module."""

    OFP_VERSIONS = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        correct_sctp()
        self._file = ""
        self._ratios: list[float] = []
        self._settings = settings()
        self._results = Path(self._settings["results"]).open("a")  # noqa: SIM115 - lives as long as we
        seconds = self._settings["seconds"]
        self._end = time.monotonic() + seconds if seconds is not None else float("inf")
        super().__init__(*args, **kwargs)

    def _test_file_execute(self, testfile: Any) -> Any:
        self._file = testfile.description
        wanted = self._settings["tests"]
        if wanted is not None:
            keep = wanted.get(self._file, [])
            testfile.tests = [test for test in testfile.tests if test.description in keep]
        return super()._test_file_execute(testfile)

    def _test_execute(self, test: Any, description: str | None) -> Any:
        began = time.monotonic()
        if began > self._end:
            self._test_end(report={})
        for pkt in test.tests:
            # Before the test, because its clock runs from the first statistics on.
            if tester.KEY_PACKETS in pkt:
                load = pkt[tester.KEY_PACKETS]
                load["prepared"] = _packets(load)
        result, error = self._test_once(test, description)
        record = {
            "file": self._file,
            "test": test.description,
            "ok": error is None,
            "error": error,
            "seconds": round(time.monotonic() - began, 3),
            "ratios": self._ratios,
        }
        self._results.write(json.dumps(record) + "\n")
        self._results.flush()
        return result

    def _test_initialize_flow(self, datapath: Any) -> None:
        super()._test_initialize_flow(datapath)
        if datapath is self.tester_sw:
            purge(self._settings["tester_control"])

    def _test_once(self, test: Any, description: str | None) -> tuple[Any, str | None]:
        """Runs a test; os-ken's result, and what went wrong."""
        self._ratios = []
        failures: list[str] = []
        original = self.logger.info

        def watch(text: str, *words: Any) -> None:
            if text == "        %s":
                failures.append(str(words[0]))
            original(text, *words)

        self.logger.info = watch
        try:
            result = super()._test_execute(test, description)
        finally:
            self.logger.info = original
        return result, None if result == tester.TEST_OK else " ".join(failures) or str(result)

    @classmethod
    def _diff_packets(cls, model_pkt: Any, rcv_pkt: Any) -> str:
        difference = str(super()._diff_packets(model_pkt, rcv_pkt))
        return f"{difference} wanted {model_pkt.data.hex()} got {rcv_pkt.data.hex()}"

    def _test_throughput_check(self, throughputs: Any, start: Any, end: Any) -> None:
        elapsed = end[0] - start[0]
        for wanted in throughputs:
            match = str(wanted[tester.KEY_FLOW].match)
            if match in start[1] and match in end[1]:
                octets, packets = (end[1][match][unit] - start[1][match][unit] for unit in (0, 1))
                # os-ken's kilobit has 1024 bits.
                expected = wanted[tester.KEY_PKTPS] or wanted[tester.KEY_KBPS] * 128
                got = packets if wanted[tester.KEY_PKTPS] else octets
                self._ratios.append(round(got / (expected * elapsed), 4))
        super()._test_throughput_check(throughputs, start, end)

    def _continuous_packet_send(self, pkt: dict[str, Any]) -> None:
        load = pkt[tester.KEY_PACKETS]
        duration = self._settings["throughput_seconds"] or load[tester.KEY_DURATION_TIME]
        messages = [self._packet_out(data) for data in load["prepared"]]
        began = time.monotonic()
        sent = 0
        while (elapsed := time.monotonic() - began) < duration:
            due = int(elapsed * load[tester.KEY_PKTPS])
            if due > sent:
                self.tester_sw.dp.send(
                    b"".join(messages[number % len(messages)] for number in range(sent, due))
                )
                sent = due
            hub.sleep(TICK_S)

    def _packet_out(self, data: bytes) -> bytes:
        datapath = self.tester_sw.dp
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        message = parser.OFPPacketOut(
            datapath,
            buffer_id=protocol.OFP_NO_BUFFER,
            in_port=protocol.OFPP_CONTROLLER,
            actions=[parser.OFPActionOutput(self.tester_send_port)],
            data=data,
        )
        datapath.set_xid(message)
        message.serialize()
        return bytes(message.buf)

    def _test_end(self, msg: str | None = None, report: Any = None) -> None:
        self._results.close()
        os._exit(0 if report is not None else 1)


def _packets(load: dict[str, Any]) -> list[bytes]:
    """The packet of a throughput test, or many if it has random fields."""
    if not load["randomize"]:
        return [bytes(load["packet_binary"])]
    source = compile("/".join(load["packet_text"]), "packet", "eval")
    packets = []
    for _ in range(RANDOM_PACKETS):
        # The text is the test suite's own notation of a packet: constructor calls.
        packet = eval(source, vars(tester))
        packet.serialize()
        packets.append(bytes(packet.data))
    return packets


def main() -> None:
    """Runs the suite as CONFIG says; exits 0 at its end."""
    config = settings()
    cfg.CONF(
        args=[
            "--ofp-listen-host=127.0.0.1",
            f"--ofp-tcp-listen-port={config['port']}",
            f"--test-switch-dir={config['dir']}",
        ],
        project="os_ken",
    )
    log.init_log()
    manager = AppManager.get_instance()
    manager.load_apps([__spec__.name if __spec__ else __name__])
    contexts = manager.create_contexts()
    services = manager.instantiate_apps(**contexts)
    hub.joinall(services)


if __name__ == "__main__":
    main()
