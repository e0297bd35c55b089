# SPDX-License-Identifier: Apache-2.0
"""node.yaml: what a node is made of. Every key has a default that fits a small machine."""

import ipaddress
import os
import re
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

import yaml
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from headrace.node.errors import ConfigError, describe, one_line
from headrace.switches.base import PortKind
from headrace.switches.registry import DRIVERS


def _is_switch(name: str) -> str:
    if name not in DRIVERS:
        raise ValueError(f"no switch is called {name!r}; known: {', '.join(DRIVERS)}")
    return name


SwitchName = Annotated[str, AfterValidator(_is_switch)]
"""A switch that a node can run (switches/registry.py)."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid")


class TlsConfig(_Strict):
    """PEM files: a certificate, with those of its authorities behind it, and its key."""

    certificate: Path
    key: Path


class RestConfig(_Strict):
    """Where the REST API listens, beside its Unix socket.

    Any address but one of the loopback interface demands `tls` and `login`. `names` are further
    names by which clients call it (the Host of their requests), beside those of the certificate.
    With `legacy` an update by PUT gets 201, as before 2017. At most `connections` are open at a
    time, and `connections_per_peer` of one address (of an IPv6 /64); more get 503, or are closed
    where the port speaks TLS. The Unix socket is not counted.
    """

    host: str = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8080
    names: list[str] = []
    legacy: bool = False
    login: bool = False
    tls: TlsConfig | None = None
    connections: Annotated[int, Field(ge=1, le=512)] = 256
    connections_per_peer: Annotated[int, Field(ge=1, le=512)] = 64

    @field_validator("host")
    @classmethod
    def _is_address(cls, host: str) -> str:
        try:
            return host if host == "localhost" else str(ipaddress.ip_address(host))
        except ValueError:
            raise ValueError(f"{host!r} is no IP address; 0.0.0.0 or :: is any") from None

    @model_validator(mode="after")
    def _guards_what_others_reach(self) -> "RestConfig":
        loopback = self.host == "localhost" or ipaddress.ip_address(self.host).is_loopback
        lacking = [key for key in ("tls", "login") if not getattr(self, key)]
        if not loopback and lacking:
            raise ValueError(
                f"{self.host} is no address of the loopback interface; any other demands TLS and "
                f"login: set {' and '.join(f'rest.{key}' for key in lacking)} "
                f"(`headrace node certificate` makes a certificate)"
            )
        return self


class DatastoreConfig(_Strict):
    """Templates and images of clients: how much they may take, and where else there are some.

    `url` is another datastore with the same paths (`/v2/nf_template`, ...), asked for what this one
    has not. `image_origins` are further places (`https://HOST[:PORT]`) from which a template's
    `remote-file` may be fetched; none else is.
    """

    max_mb: Annotated[int, Field(ge=0)] = 20_480
    image_mb: Annotated[int, Field(ge=0)] = 8192
    disk_gb: Annotated[int, Field(ge=1, le=1 << 20)] = 256
    url: str | None = None
    image_origins: list[str] = []

    @field_validator("url", "image_origins")
    @classmethod
    def _are_urls(cls, value: str | list[str] | None) -> str | list[str] | None:
        for url in [value] if isinstance(value, str) else value or []:
            parts = urlsplit(url)
            if parts.scheme not in ("http", "https") or not parts.hostname or parts.query:
                raise ValueError(f"{url!r} is no http://HOST:PORT or https://HOST:PORT")
        return value


class OrchestratorConfig(_Strict):
    """Where the node's description is sent when it changes; `token` goes as X-Auth-Token."""

    url: str | None = None
    token: str | None = None

    @field_validator("url")
    @classmethod
    def _is_url(cls, url: str | None) -> str | None:
        parts = urlsplit(url or "http://none")
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"{url!r} is no http://HOST:PORT/PATH or https://HOST:PORT/PATH")
        return url


class HostStackConfig(_Strict):
    """The networks of which graphs may give addresses to the host, by hand or by DHCP."""

    networks: list[str] = []

    @field_validator("networks")
    @classmethod
    def _are_networks(cls, networks: list[str]) -> list[str]:
        return [str(ipaddress.ip_network(text)) for text in networks]


def usable_cores() -> list[int]:
    """The cores that this process may run on."""
    return sorted(os.sched_getaffinity(0))


Idle = Literal["poll", "yield", "sleep"]
"""What a poller does on an empty round: poll on, give the core to others, or sleep."""

Burst = Annotated[int, Field(ge=1, le=64)]
"""Packets that one poll of a port takes."""


class CoresConfig(_Strict):
    """Who runs where. By default the last core is the switch's and the first one all others'."""

    control: list[int] = Field(default_factory=lambda: usable_cores()[:1])
    switch: list[int] = Field(default_factory=lambda: usable_cores()[-1:])
    vnf: list[int] = Field(default_factory=lambda: usable_cores()[:-1] or usable_cores())

    @model_validator(mode="after")
    def _exist(self) -> "CoresConfig":
        for role in ("control", "switch", "vnf"):
            for core in getattr(self, role):
                if core not in usable_cores():
                    raise ValueError(f"{role}: this machine has no core {core}: {usable_cores()}")
            if not getattr(self, role):
                raise ValueError(f"{role}: at least one core is needed")
        return self


_MADE_BY_NODE = re.compile(
    r"(hr[0-9a-f]{4})?(g\d+p\d+[if]?|g\d+l\d+[ab])|hr[0-9a-f]{4}-i?\d+[a-z]?(f\d+)?"
)
"""The names that the node itself gives to ports of graphs, ends of links, and LSIs."""


class PortConfig(_Strict):
    """A physical port of the node, on LSI-0.

    Tunnels of graphs may begin at its `addresses` (`ADDRESS/PREFIX`); what is not in their prefixes
    is reached by the one of `gateways` that is.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,15}$")]
    kind: PortKind
    options: dict[str, str] = {}
    addresses: list[str] = []
    gateways: list[str] = []

    @field_validator("addresses")
    @classmethod
    def _are_interfaces(cls, addresses: list[str]) -> list[str]:
        for text in addresses:
            if "/" not in text:
                raise ValueError(f"{text!r} has no prefix length; write ADDRESS/PREFIX")
        return [str(ipaddress.ip_interface(text)) for text in addresses]

    @field_validator("gateways")
    @classmethod
    def _are_addresses(cls, gateways: list[str]) -> list[str]:
        return [str(ipaddress.ip_address(text)) for text in gateways]

    @field_validator("name")
    @classmethod
    def _is_not_the_nodes(cls, name: str) -> str:
        if _MADE_BY_NODE.fullmatch(name):
            raise ValueError("the node gives such names to ports of graphs; choose another")
        return name


class ForwardsConfig(_Strict):
    """Where and between which two ports of the host graphs may have TCP connections forwarded."""

    address: str = "127.0.0.1"
    ports: tuple[Annotated[int, Field(ge=1024)], Annotated[int, Field(le=65535)]] = (1024, 65535)

    @field_validator("address")
    @classmethod
    def _is_address(cls, text: str) -> str:
        return str(ipaddress.ip_address(text))


class SwitchConfig(_Strict):
    """A further switch of the node, for the graphs that name it."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,64}$")]
    driver: SwitchName
    options: dict[str, str] = {}


class NodeConfig(_Strict):
    """The whole of node.yaml. `vnf_ports` is preferred for ports to VNFs, where it is possible.

    `idle` is for VNFs, and for the switch's workers that share a core: `auto` lets a poller sleep,
    for up to `sleep_us`, where it shares its core with the control programs or may come to share it
    with another poller. A template's own `idle` and `burst` win. `placement` is the policy that
    chooses templates, kinds of ports and cores (planning/policy.py). `dpdk_plugins` are shared
    objects of DPDK drivers that the switch loads besides DPDK's own. `switch_options` are the
    driver's own (docs/switches.md), `switches` further ones that graphs may name. Graphs may have
    OpenFlow controllers in the networks `controllers`. `model` is a file of `headrace model fit`,
    by which graphs are predicted (prediction.py).
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.\-]{1,64}$")] = "headrace"
    switch: SwitchName = "headrace"
    switch_options: dict[str, str] = {}
    switches: Annotated[list[SwitchConfig], Field(max_length=8)] = []
    rest: RestConfig = RestConfig()
    cores: CoresConfig = Field(default_factory=CoresConfig)
    memory_mb: Annotated[int, Field(ge=64)] = 512
    switch_memory_mb: Annotated[int, Field(ge=64)] = 256
    hugepages: Literal["auto", "require", "off"] = "auto"
    oversubscribe: bool = False
    placement: str = "first-fit"
    idle: Idle | Literal["auto"] = "auto"
    sleep_us: Annotated[int, Field(ge=1, le=10_000)] = 250
    burst: Burst = 32
    ports: list[PortConfig] | None = None
    vnf_ports: PortKind | None = None
    templates: list[Path] = []
    dpdk_plugins: list[Path] = []
    model: Path | None = None
    datastore: DatastoreConfig = DatastoreConfig()
    host_stack: HostStackConfig = HostStackConfig()
    forwards: ForwardsConfig = ForwardsConfig()
    controllers: list[str] = []
    orchestrator: OrchestratorConfig = OrchestratorConfig()
    log_level: str = "info"
    log_mb: Annotated[int, Field(ge=1, le=10_000)] = 8

    @property
    def switch_sleep_us(self) -> int:
        """How long an idle worker of the switch may sleep; 0: it polls on, its core is its own."""
        shared = set(self.cores.control)
        if self.oversubscribe:
            shared |= set(self.cores.vnf)
        if self.switches:
            shared |= set(self.cores.switch)
        rests = self.idle in ("auto", "sleep") and shared & set(self.cores.switch)
        return self.sleep_us if rests else 0

    @field_validator("controllers")
    @classmethod
    def _are_networks(cls, networks: list[str]) -> list[str]:
        return [str(ipaddress.ip_network(text)) for text in networks]

    @field_validator("dpdk_plugins")
    @classmethod
    def _are_absolute(cls, plugins: list[Path]) -> list[Path]:
        for plugin in plugins:
            if not plugin.is_absolute() or len(str(plugin).split()) != 1:
                raise ValueError(f"{plugin}: give an absolute path without blanks")
        return plugins

    @model_validator(mode="after")
    def _distinct_switches(self) -> "NodeConfig":
        names = [self.switch, *(switch.name for switch in self.switches)]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"switches: two switches are named {name}")
        return self

    @model_validator(mode="after")
    def _distinct_ports(self) -> "NodeConfig":
        names = [port.name for port in self.ports or []]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"ports: two ports are named {name}")
        addresses = [
            ipaddress.ip_interface(text).ip for port in self.ports or [] for text in port.addresses
        ]
        for address in addresses:
            if addresses.count(address) > 1:
                raise ValueError(f"ports: two ports have the address {address}")
        if self.switch_memory_mb >= self.memory_mb:
            raise ValueError("memory_mb is for the switch and all VNFs: more than switch_memory_mb")
        return self


def load(path: Path | None) -> NodeConfig:
    """Reads node.yaml, or gives the defaults.

    Raises:
        ConfigError: the file cannot be read or says something wrong; names the key.
    """
    if path is None:
        return NodeConfig()
    try:
        return from_dict(yaml.safe_load(path.read_text()) or {})
    except OSError as error:
        raise ConfigError("config", f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise ConfigError("config", f"{path}: no YAML: {one_line(error)}") from error
    except ConfigError as error:
        raise ConfigError("config", f"{path}: {error}") from error


def from_dict(values: object) -> NodeConfig:
    """A configuration from its parsed form.

    Raises:
        ConfigError: names the key.
    """
    try:
        return NodeConfig.model_validate(values)
    except ValidationError as error:
        raise ConfigError("config", describe(error, "node.yaml")) from None
