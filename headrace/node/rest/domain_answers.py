# SPDX-License-Identifier: Apache-2.0
"""What /domain-information answers: the original node's `netgroup-domain:informations`."""

from typing import Literal

from pydantic import Field

from headrace.node.rest.contract import Answer


class CpuAnswer(Answer):
    """Cores, and those that no VNF polls on."""

    number: int
    free: int


class MemoryAnswer(Answer):
    """MiB."""

    size: int
    free: int


class DomainResources(Answer):
    """What the machine has."""

    cpu: CpuAnswer
    memory: MemoryAnswer


class InterfaceConfig(Answer):
    """Whether a port can be used."""

    enabled: bool


class DomainInterface(Answer):
    """A physical port."""

    index: int
    name: str
    config: InterfaceConfig


class DomainInterfaces(Answer):
    """The physical ports."""

    interface: list[DomainInterface]


class HardwareInformations(Answer):
    """Resources and physical ports."""

    resources: DomainResources
    interfaces: DomainInterfaces


class InfrastructuralCapability(Answer):
    """A type of end-point that graphs may have."""

    type: str
    name: str


class InfrastructuralCapabilities(Answer):
    """Types of end-points."""

    infrastructural: list[InfrastructuralCapability] = Field(alias="infrastructural-capability")


class FunctionalCapability(Answer):
    """A VNF that graphs may have, by its template."""

    type: str
    name: str
    ready: bool
    template: str


class FunctionalCapabilities(Answer):
    """VNFs."""

    functional: list[FunctionalCapability] = Field(alias="functional-capability")


class DomainCapabilities(Answer):
    """What graphs may have."""

    infrastructural: InfrastructuralCapabilities = Field(alias="infrastructural-capabilities")
    functional: FunctionalCapabilities = Field(alias="functional-capabilities")


class DomainInformations(Answer):
    """The node as an orchestrator sees it; `management_address` is HOST:PORT of its API."""

    id: str
    name: str
    type: Literal["universal_node"]
    management_address: str = Field(alias="management-address")
    hardware: HardwareInformations = Field(alias="hardware-informations")
    capabilities: DomainCapabilities


class DomainDescription(Answer):
    """The document that is pushed to an orchestrator, too."""

    informations: DomainInformations = Field(alias="netgroup-domain:informations")
