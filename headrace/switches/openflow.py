# SPDX-License-Identifier: Apache-2.0
"""A small asyncio OpenFlow 1.3 controller for one LSI, over the bridge's management socket.

Each batch of flow-mods ends with a barrier. OpenFlow answers an invalid message with an error of
the same transaction id and does not acknowledge a valid one, so after the barrier's reply (1.3.5,
section 6.2) every error is known and is reported with the rule that caused it. Messages that change
rules are packed by `flow_mods.py`, since there are many; all others by os-ken. The session is ours,
because os-ken's requires its application framework.
"""

import asyncio
import itertools
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from os_ken.ofproto import ofproto_parser, ofproto_protocol
from os_ken.ofproto import ofproto_v1_3 as of
from os_ken.ofproto import ofproto_v1_3_parser as parser

from headrace.machine.patience import patient
from headrace.switches import flow_mods
from headrace.switches.base import RuleStatistics, SwitchError
from headrace.switches.rules import Rule

_HEADER_BYTES = 8
_MULTIPART = struct.Struct("!HH4x")
_REQUEST = struct.Struct("!BBHIHH4x")  # a multipart request up to its body
_ALL_FLOWS = struct.pack(
    "!B3xII4xQQHH4x", 0, of.OFPP_ANY, of.OFPG_ANY, 0, 0, of.OFPMT_OXM, 4
)  # of table 0, by an empty match
_ALL_PORTS = struct.pack("!I4x", of.OFPP_ANY)
_FLOW_STATS = struct.Struct("!H22xQQQ")  # length; table to flags and padding; cookie, counts
_PORT_STATS = struct.Struct("!I4x6Q56x")  # number; packets, bytes, dropped; errors and duration
_ANSWER_S = 30.0
_AT_ONCE = 256
"""Messages that are written together."""
_MANY = 256
"""Rules that are not removed one by one by their cookies."""
_Message = tuple[int, bytes]
"""A transaction id and the octets of its message."""


def decode_flow_counts(body: bytes) -> Iterator[RuleStatistics]:
    """The counters in the body of a reply of flow statistics (1.3.5, section 7.3.5.2).

    Matches and instructions are passed over: reading them takes twenty times as long.

    Raises:
        SwitchError: a length is wrong.
    """
    at = 0
    while at < len(body):
        if len(body) - at < _FLOW_STATS.size:
            raise SwitchError("OpenFlow: flow statistics end within a flow")
        length, cookie, packets, octets = _FLOW_STATS.unpack_from(body, at)
        if length < _FLOW_STATS.size or at + length > len(body):
            raise SwitchError(f"OpenFlow: flow statistics with a length of {length}")
        yield RuleStatistics(cookie, packets, octets)
        at += length


class PortCounts(NamedTuple):
    """The counters of a port, as OpenFlow orders them (1.3.5, section 7.3.5.6)."""

    port_no: int
    rx_packets: int
    tx_packets: int
    rx_bytes: int
    tx_bytes: int
    rx_dropped: int
    tx_dropped: int


def decode_port_counts(body: bytes) -> Iterator[PortCounts]:
    """The counters in the body of a reply of port statistics.

    Raises:
        SwitchError: its length is wrong.
    """
    if len(body) % _PORT_STATS.size:
        raise SwitchError("OpenFlow: port statistics end within a port")
    return map(PortCounts._make, _PORT_STATS.iter_unpack(body))


class OpenFlowSession:
    """A connection to one LSI; made by `connect`. Use from one task at a time per call."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._datapath = ofproto_protocol.ProtocolDesc(version=of.OFP_VERSION)
        self._xids = itertools.count(1)
        self._lock = asyncio.Lock()

    @classmethod
    async def connect(cls, socket: Path, timeout_s: float = 5.0) -> "OpenFlowSession":
        """Connects to `<bridge>.mgmt` and negotiates OpenFlow 1.3.

        Raises:
            SwitchError: no process listens, or the peer does not support OpenFlow 1.3.
        """
        deadline = asyncio.get_running_loop().time() + patient(timeout_s)
        while True:
            try:
                streams = await asyncio.open_unix_connection(str(socket))
                break
            except OSError as error:
                if asyncio.get_running_loop().time() > deadline:
                    text = f"no OpenFlow on {socket}: {error.strerror}"
                    raise SwitchError(text) from error
                await asyncio.sleep(0.02)
        return await cls.over(*streams, str(socket), timeout_s)

    @classmethod
    async def over(
        cls,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        peer: str,
        timeout_s: float = 5.0,
    ) -> "OpenFlowSession":
        """Negotiates OpenFlow 1.3 over a connection to `peer`, which it takes over.

        Raises:
            SwitchError: the peer does not support OpenFlow 1.3.
        """
        self = cls(reader, writer)
        bitmap = parser.OFPHelloElemVersionBitmap(versions=[of.OFP_VERSION])
        self._send(parser.OFPHello(self._datapath, elements=[bitmap]))
        try:
            version, kind, _, _ = await asyncio.wait_for(self._receive_raw(), patient(timeout_s))
        except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            await self.close()
            raise SwitchError(f"{peer}: no OpenFlow hello") from error
        if kind != of.OFPT_HELLO or version < of.OFP_VERSION:
            await self.close()
            raise SwitchError(f"{peer}: the switch does not support OpenFlow 1.3")
        return self

    @property
    def closed(self) -> bool:
        """Whether either side has closed the connection."""
        return self._writer.is_closing() or self._reader.at_eof()

    async def close(self) -> None:
        """Closes the connection."""
        self._writer.close()

    def _xid(self) -> int:
        return next(self._xids) & 0xFFFF_FFFF

    def _send(self, message: Any) -> int:
        xid = self._xid()
        message.set_xid(xid)
        message.serialize()
        self._writer.write(bytes(message.buf))
        return xid

    async def _receive_raw(self) -> tuple[int, int, int, bytes]:
        header = await self._reader.readexactly(_HEADER_BYTES)
        version, kind, length, xid = ofproto_parser.header(header)
        body = await self._reader.readexactly(length - _HEADER_BYTES)
        return version, kind, xid, header + body

    async def _receive(self) -> Any:
        """The next message that is not an echo request, which is answered here."""
        while True:
            version, kind, xid, data = await self._receive_raw()
            message = ofproto_parser.msg(self._datapath, version, kind, len(data), xid, data)
            if kind == of.OFPT_ECHO_REQUEST:
                reply = parser.OFPEchoReply(self._datapath, data=message.data)
                reply.set_xid(xid)
                reply.serialize()
                self._writer.write(bytes(reply.buf))
                continue
            return message

    async def install(
        self, rules: Sequence[Rule], ofports: dict[str, int], keeps_flows: bool = False
    ) -> None:
        """Adds or replaces rules; returns when all of them are in effect.

        For `keeps_flows` see `flow_mods.group_addition`.

        Raises:
            SwitchError: the switch rejected a rule; all others are in effect.
        """
        await self._modify(
            (rule, message)
            for rule in rules
            for message in self._additions(rule, ofports, keeps_flows)
        )

    def _additions(
        self, rule: Rule, ofports: Mapping[str, int], keeps_flows: bool
    ) -> Iterator[_Message]:
        if rule.select is not None:
            xid = self._xid()
            yield xid, flow_mods.group_addition(rule, ofports, keeps_flows, xid)
        xid = self._xid()
        yield xid, flow_mods.addition(rule, ofports, xid)

    async def remove(
        self, rules: Sequence[Rule], ofports: Mapping[str, int] = MappingProxyType({})
    ) -> None:
        """Removes rules by their cookie, so that a rule can be removed after its ports.

        For a cookie a switch looks through its whole table. So many rules are removed by their
        match where the number of the port is known, and what is left after that by cookie.
        """
        if len(rules) >= _MANY:
            exact = [rule for rule in rules if rule.in_port in ofports and not rule.select]
            await self._modify((rule, self._exact_deletion(rule, ofports)) for rule in exact)
            left = {row.cookie for row in await self.rule_statistics()}
            rules = [rule for rule in rules if rule.select or rule.cookie in left]
        await self._modify((rule, message) for rule in rules for message in self._deletions(rule))

    def _exact_deletion(self, rule: Rule, ofports: Mapping[str, int]) -> _Message:
        xid = self._xid()
        return xid, flow_mods.exact_deletion(rule, ofports, xid)

    def _deletions(self, rule: Rule) -> Iterator[_Message]:
        xid = self._xid()
        yield xid, flow_mods.deletion(rule, xid)
        if rule.select is not None:
            xid = self._xid()
            yield xid, flow_mods.group_deletion(rule, xid)

    async def _modify(self, mods: Iterator[tuple[Rule, _Message]]) -> None:
        """Sends messages, many at once, and waits until the switch has acted on all."""
        async with self._lock:
            sent: dict[int, Rule] = {}
            while batch := list(itertools.islice(mods, _AT_ONCE)):
                sent.update((xid, rule) for rule, (xid, _) in batch)
                try:
                    self._writer.write(b"".join([octets for _, (_, octets) in batch]))
                    await self._writer.drain()
                except OSError as gone:
                    raise SwitchError(f"OpenFlow: the switch has ended: {gone}") from gone
                await asyncio.sleep(0)  # the node has more to do than this
            barrier = self._send(parser.OFPBarrierRequest(self._datapath))
            refused: list[tuple[Rule, Any]] = []
            while True:
                message = await self._answer("barrier")
                if message.msg_type == of.OFPT_BARRIER_REPLY and message.xid == barrier:
                    break
                if message.msg_type == of.OFPT_ERROR and message.xid in sent:
                    refused.append((sent[message.xid], message))
        if refused:
            rule, error = refused[0]
            more = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
            raise SwitchError(
                f"{rule.label}: the switch refused the rule [{rule}]: {error_name(error)}{more}"
            )

    async def _answer(self, waiting_for: str) -> Any:
        try:
            return await asyncio.wait_for(self._receive(), 30.0)
        except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            raise SwitchError(f"OpenFlow: no {waiting_for} reply from the switch") from error

    async def _multipart(self, request: Any) -> list[Any]:
        async with self._lock:
            xid = self._send(request)
            parts: list[Any] = []
            while True:
                message = await self._answer("statistics")
                if message.xid != xid:
                    continue
                if message.msg_type == of.OFPT_ERROR:
                    raise SwitchError(f"OpenFlow statistics: {error_name(message)}")
                parts += message.body
                if not message.flags & of.OFPMPF_REPLY_MORE:
                    return parts

    async def _bodies(self, kind: int, body: bytes) -> list[bytes]:
        """The bodies of a multipart reply as they came, for what is read in large numbers."""
        async with self._lock:
            xid = self._xid()
            length = _REQUEST.size + len(body)
            head = (of.OFP_VERSION, of.OFPT_MULTIPART_REQUEST, length, xid, kind, 0)
            self._writer.write(_REQUEST.pack(*head) + body)
            try:
                async with asyncio.timeout(_ANSWER_S):
                    return await self._replies(xid)
            except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
                raise SwitchError("OpenFlow: no statistics reply from the switch") from error

    async def _replies(self, xid: int) -> list[bytes]:
        bodies = []
        while True:
            _, kind, got, data = await self._receive_raw()
            if kind == of.OFPT_ECHO_REQUEST:
                reply = parser.OFPEchoReply(self._datapath, data=data[_HEADER_BYTES:])
                reply.set_xid(got)
                reply.serialize()
                self._writer.write(bytes(reply.buf))
            elif got == xid and kind == of.OFPT_ERROR:
                error_message = ofproto_parser.msg(
                    self._datapath, of.OFP_VERSION, kind, len(data), got, data
                )
                raise SwitchError(f"OpenFlow statistics: {error_name(error_message)}")
            elif got == xid and kind == of.OFPT_MULTIPART_REPLY:
                _, flags = _MULTIPART.unpack_from(data, _HEADER_BYTES)
                bodies.append(data[_HEADER_BYTES + _MULTIPART.size :])
                if not flags & of.OFPMPF_REPLY_MORE:
                    return bodies

    async def probe(self) -> None:
        """Asks for an echo, and answers what the switch has asked meanwhile.

        Raises:
            SwitchError: the switch does not answer.
        """
        async with self._lock:
            xid = self._send(parser.OFPEchoRequest(self._datapath, data=b""))
            while (await self._answer("echo")).xid != xid:
                pass

    async def clear(self) -> None:
        """Removes all rules of all tables, and all groups."""
        everything = parser.OFPFlowMod(
            self._datapath,
            table_id=of.OFPTT_ALL,
            command=of.OFPFC_DELETE,
            out_port=of.OFPP_ANY,
            out_group=of.OFPG_ANY,
            match=parser.OFPMatch(),
        )
        groups = parser.OFPGroupMod(
            self._datapath,
            command=of.OFPGC_DELETE,
            type_=of.OFPGT_ALL,
            group_id=of.OFPG_ALL,
            buckets=[],
        )
        async with self._lock:
            self._send(everything)
            self._send(groups)
            barrier = self._send(parser.OFPBarrierRequest(self._datapath))
            while (await self._answer("barrier")).xid != barrier:
                pass

    async def ports(self) -> dict[int, Any]:
        """os-ken's OFPPort of all ports, by port number."""
        request = parser.OFPPortDescStatsRequest(self._datapath, 0)
        return {port.port_no: port for port in await self._multipart(request)}

    async def description(self) -> str:
        """Manufacturer, hardware and software of the switch."""
        async with self._lock:
            xid = self._send(parser.OFPDescStatsRequest(self._datapath, 0))
            while (reply := await self._answer("description")).xid != xid:
                pass
        said = reply.body
        words = (said.mfr_desc, said.hw_desc, said.sw_desc)
        return ", ".join(word.decode(errors="replace") for word in words if word)

    async def rule_statistics(self) -> list[RuleStatistics]:
        """Counters of all rules of table 0."""
        bodies = await self._bodies(of.OFPMP_FLOW, _ALL_FLOWS)
        return [row for body in bodies for row in decode_flow_counts(body)]

    async def port_statistics(self) -> dict[int, PortCounts]:
        """Counters of all ports, by port number."""
        bodies = await self._bodies(of.OFPMP_PORT_STATS, _ALL_PORTS)
        return {row.port_no: row for body in bodies for row in decode_port_counts(body)}


# The prefix of the code names of each error type (1.3.5, section 7.4.4).
_CODE_PREFIX = {
    of.OFPET_BAD_REQUEST: "OFPBRC_",
    of.OFPET_BAD_ACTION: "OFPBAC_",
    of.OFPET_BAD_INSTRUCTION: "OFPBIC_",
    of.OFPET_BAD_MATCH: "OFPBMC_",
    of.OFPET_FLOW_MOD_FAILED: "OFPFMFC_",
    of.OFPET_GROUP_MOD_FAILED: "OFPGMFC_",
}


def error_name(error: Any) -> str:
    """The name of an error's code as the OpenFlow specification has it, else its numbers."""
    prefix = _CODE_PREFIX.get(error.type)
    if prefix is not None:
        for name in dir(of):
            if name.startswith(prefix) and getattr(of, name) == error.code:
                return name
    return f"OpenFlow error type {error.type} code {error.code}"
