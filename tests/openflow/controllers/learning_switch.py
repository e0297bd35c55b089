# SPDX-License-Identifier: Apache-2.0
"""A learning switch as os-ken's users write it, on a stock os-ken.

`python -m tests.openflow.controllers.learning_switch PORT` listens at 127.0.0.1:PORT.
"""

from __future__ import annotations

import sys
from typing import Any, ClassVar

from os_ken import cfg, log
from os_ken.base.app_manager import AppManager, OSKenApp
from os_ken.controller import ofp_event
from os_ken.controller.handler import CONFIG_DISPATCHER, MAIN_DISPATCHER, set_ev_cls
from os_ken.lib import hub
from os_ken.lib.packet import ethernet, packet
from os_ken.ofproto import ofproto_v1_3


class LearningSwitch(OSKenApp):  # type: ignore[misc]
    """Floods what it does not know; installs a flow for what it knows."""

    OFP_VERSIONS: ClassVar[list[int]] = [ofproto_v1_3.OFP_VERSION]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._ports: dict[tuple[int, str], int] = {}

    @set_ev_cls(ofp_event.EventOFPSwitchFeatures, CONFIG_DISPATCHER)  # type: ignore[untyped-decorator]
    def features(self, event: Any) -> None:
        """Installs the table-miss entry."""
        datapath = event.msg.datapath
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        # Packets are buffered in the switch; the controller sees 128 octets.
        self._add(datapath, 0, parser.OFPMatch(), protocol.OFPP_CONTROLLER, max_len=128)

    @set_ev_cls(ofp_event.EventOFPPacketIn, MAIN_DISPATCHER)  # type: ignore[untyped-decorator]
    def packet_in(self, event: Any) -> None:
        """Learns the source; sends the packet on."""
        message = event.msg
        datapath = message.datapath
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        in_port = message.match["in_port"]
        header = packet.Packet(message.data).get_protocol(ethernet.ethernet)
        self._ports[datapath.id, header.src] = in_port
        out_port = self._ports.get((datapath.id, header.dst), protocol.OFPP_FLOOD)
        if out_port != protocol.OFPP_FLOOD:
            match = parser.OFPMatch(in_port=in_port, eth_dst=header.dst, eth_src=header.src)
            self._add(datapath, 1, match, out_port, buffer_id=message.buffer_id)
            if message.buffer_id != protocol.OFP_NO_BUFFER:
                return  # the flow-mod has sent it
        whole = message.buffer_id == protocol.OFP_NO_BUFFER
        datapath.send_msg(
            parser.OFPPacketOut(
                datapath=datapath,
                buffer_id=message.buffer_id,
                in_port=in_port,
                actions=[parser.OFPActionOutput(out_port)],
                data=message.data if whole else None,
            )
        )

    @staticmethod
    def _add(
        datapath: Any,
        priority: int,
        match: Any,
        out_port: int,
        *,
        max_len: int = 0,
        buffer_id: int | None = None,
    ) -> None:
        protocol, parser = datapath.ofproto, datapath.ofproto_parser
        actions = [parser.OFPActionOutput(out_port, max_len)]
        datapath.send_msg(
            parser.OFPFlowMod(
                datapath=datapath,
                priority=priority,
                match=match,
                buffer_id=protocol.OFP_NO_BUFFER if buffer_id is None else buffer_id,
                instructions=[parser.OFPInstructionActions(protocol.OFPIT_APPLY_ACTIONS, actions)],
            )
        )


def main() -> None:
    """Runs the application until it is ended."""
    cfg.CONF(
        args=["--ofp-listen-host=127.0.0.1", f"--ofp-tcp-listen-port={sys.argv[1]}"],
        project="os_ken",
    )
    log.init_log()
    manager = AppManager.get_instance()
    manager.load_apps([__spec__.name if __spec__ else __name__])
    hub.joinall(manager.instantiate_apps(**manager.create_contexts()))


if __name__ == "__main__":
    main()
