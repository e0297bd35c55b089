# SPDX-License-Identifier: Apache-2.0
"""The end-points of an NF-FG: one object of each type, named as the type."""

from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, model_validator

from headrace.node.planning.values import Identifier, Open, Text


class InterfaceModel(Open):
    """A physical port of the node."""

    # Ours: other graphs that say so, too, may use the port, or the tag.
    shared: bool = False
    if_name: Text = Field(validation_alias=AliasChoices("if-name", "interface"))
    node_id: Text | None = Field(None, alias="node-id")


class VlanModel(InterfaceModel):
    """The traffic of one tag on a physical port."""

    vlan_id: Text = Field(alias="vlan-id")


class InternalModel(Open):
    """A switch that all end-points of the same group share."""

    internal_group: Annotated[Text, Field(min_length=1, max_length=64)] = Field(
        alias="internal-group"
    )
    node_id: Text | None = Field(None, alias="node-id")


class _Tunnel(Open):
    """A tunnel from an address of this node to another machine."""

    local_ip: Text = Field(alias="local-ip")
    remote_ip: Text = Field(alias="remote-ip")
    ttl: Text | None = None


class GreTunnelModel(_Tunnel):
    """Ethernet in GRE (RFC 2784) with a key (RFC 2890)."""

    gre_key: Text = Field(alias="gre-key")
    secure: bool = False


class VxlanModel(_Tunnel):
    """Ethernet in VXLAN (RFC 7348). Ours."""

    vni: Text


class GtpuModel(_Tunnel):
    """IP in GTP-U (3GPP TS 29.281); `teid` is that of both directions. Ours."""

    in_teid: Text = Field(validation_alias=AliasChoices("in-teid", "teid"))
    out_teid: Text = Field(validation_alias=AliasChoices("out-teid", "teid"))


class HostStackModel(Open):
    """An interface in the host's IP stack; `IPv6` is ours."""

    configuration: Text | None = None
    ipv4: Text | None = Field(None, validation_alias=AliasChoices("IPv4", "ipv4"))
    ipv6: Text | None = Field(None, validation_alias=AliasChoices("IPv6", "ipv6"))
    mac: Annotated[str, Field(pattern=r"^[0-9a-fA-F][02468aceACE](:[0-9a-fA-F]{2}){5}$")] | None = (
        None
    )


EndPointType = Literal[
    "interface",
    "vlan",
    "gre-tunnel",
    "vxlan",
    "gtpu",
    "internal",
    "host-stack",
    "interface-out",
    "management",
]


class EndPointModel(Open):
    """Where traffic enters or leaves a graph. The kind is the sub-object that is present."""

    id: Identifier
    name: Text | None = None
    type: Text | None = None
    interface: InterfaceModel | None = None
    vlan: VlanModel | None = None
    internal: InternalModel | None = None
    gre_tunnel: GreTunnelModel | None = Field(None, alias="gre-tunnel")
    vxlan: VxlanModel | None = None
    gtpu: GtpuModel | None = None
    host_stack: HostStackModel | None = Field(None, alias="host-stack")
    interface_out: dict[str, Any] | None = Field(None, alias="interface-out")
    management: HostStackModel | None = None
    domain: Text | None = None
    gui_position: Any = Field(None, alias="gui-position")

    @property
    def kind(self) -> EndPointType:
        """The type, by the sub-object that is present."""
        for kind in EndPointType.__args__:  # type: ignore[attr-defined]
            if getattr(self, kind.replace("-", "_")) is not None:
                return kind  # type: ignore[no-any-return]
        raise AssertionError("checked when read")

    @property
    def is_physical(self) -> bool:
        """Whether it is a physical port, or a tag on one."""
        return self.kind in ("interface", "vlan")

    @model_validator(mode="after")
    def _one_kind(self) -> "EndPointModel":
        kinds: list[str] = [
            kind
            for kind in EndPointType.__args__  # type: ignore[attr-defined]
            if getattr(self, kind.replace("-", "_")) is not None
        ]
        if len(kinds) != 1:
            written = ", ".join(kinds) or "none"
            raise ValueError(
                f"an end-point has exactly one object named as its type (found: {written}), "
                f'such as "interface": {{"if-name": "p0"}}'
            )
        return self
