# SPDX-License-Identifier: Apache-2.0
"""What a graph asks for a VNF beside its ports, in the original API's words.

Environment variables (`unify-env-variables`), forwarded TCP ports (`unify-control`), addresses of
ports (`unify-ip`), user data for cloud-init (`user_data`). The template decides which a graph may
have.
"""

from collections.abc import Iterator
from typing import Any

from headrace.engines.base import Forward
from headrace.engines.environment import ANY, fault_of, may_set
from headrace.node.config import ForwardsConfig
from headrace.node.errors import GraphRefused
from headrace.node.planning.nffg import VnfModel
from headrace.node.templates import Template

USER_DATA, ADDRESSES = "user_data", "addresses"


def settings_of(vnf: VnfModel, template: Template) -> dict[str, Any]:
    """The configuration of a VNF as its graph has it, with what the original has other words for.

    The port's `unify-ip` is one of its `addresses`. Where a template has no such settings, both
    are left out (`left_out`).
    """
    settings = dict(vnf.configuration)
    if vnf.user_data and USER_DATA in template.graph_may_set:
        settings.setdefault(USER_DATA, vnf.user_data)
    given = {port.id: port.unify_ip for port in vnf.ports if port.unify_ip}
    if given and ADDRESSES in template.graph_may_set:
        addresses = dict(settings.get(ADDRESSES) or template.configuration.get(ADDRESSES) or {})
        for port, address in given.items():
            addresses[port] = [*dict.fromkeys([*addresses.get(port, ()), address])]
        settings[ADDRESSES] = addresses
    return settings


def configuration_of(vnf: VnfModel, template: Template) -> dict[str, Any]:
    """All settings of a VNF: the template's, the graph's over them, and which port has which role.

    A role is the port whose label it is, else the one at its place.
    """
    settings = {**template.configuration, **settings_of(vnf, template)}
    if template.engine == "vm" and vnf.unify_control:
        settings["management"] = True  # the NIC by which forwarded ports are reached
    for position, role in enumerate(template.ports.labels if template.ports.roles else ()):
        named = [port.id for port in vnf.ports if port.id.rpartition(":")[0] == role]
        if not named and position < len(vnf.ports):
            named = [vnf.ports[position].id]
        if named:
            settings.setdefault(role, named[0])
    return settings


def left_out(vnf: VnfModel, place: str, template: Template) -> Iterator[str]:
    """Warnings of what a graph has for a VNF, and its template does not take."""
    if vnf.user_data and USER_DATA not in template.graph_may_set:
        yield f"{place}.user_data: template {template.id} does not take it, ignored"
    for number, port in enumerate(vnf.ports):
        if port.unify_ip and ADDRESSES not in template.graph_may_set:
            yield f"{place}.ports[{number}].unify-ip: template {template.id} has no addresses"


def environment_of(vnf: VnfModel, place: str, template: Template) -> dict[str, str]:
    """The variables of the VNF at `place` of the document: the template's, then the graph's.

    Raises:
        GraphRefused: the template does not let a graph set one, or it is wrong.
    """
    variables = dict(template.environment)
    for number, model in enumerate(vnf.unify_env_variables):
        name, _, value = model.variable.partition("=")
        where = f"{place}.unify-env-variables[{number}]"
        fault = fault_of({name: value})
        if fault is not None:
            raise GraphRefused("templates", f"{where}: {fault}")
        if not may_set(name, template.graph_may_set):
            entries = [key for key in template.graph_may_set if key.partition(".")[0] == ANY]
            allowed = ", ".join(key.partition(".")[2] or "any other" for key in entries)
            raise GraphRefused(
                "templates",
                f"{where}: template {template.id} does not let a graph set {name}; a graph may "
                f"set: {allowed or 'none'}",
            )
        variables[name] = value
    fault = fault_of(variables)
    if fault is not None:
        raise GraphRefused("templates", f"{place}.unify-env-variables: {fault}")
    return variables


def forwards_of(
    vnf: VnfModel, place: str, template: Template, config: ForwardsConfig, taken: dict[int, str]
) -> tuple[Forward, ...]:
    """The forwards of the VNF at `place`; `taken`, whose ports of the host they are, is added to.

    Raises:
        GraphRefused: the template or the node does not allow one, or another VNF has the port.
    """
    found = []
    low, high = config.ports
    for number, model in enumerate(vnf.unify_control):
        where = f"{place}.unify-control[{number}]"
        known = template.graph_may_forward
        if known != "any" and model.vnf_tcp_port not in known:
            allowed = ", ".join(map(str, known)) or "none"
            raise GraphRefused(
                "templates",
                f"{where}.vnf-tcp-port: template {template.id} does not let a graph forward to "
                f"port {model.vnf_tcp_port}; it has: {allowed}",
            )
        port = model.host_tcp_port
        if not low <= port <= high:
            raise GraphRefused(
                "templates",
                f"{where}.host-tcp-port: this node gives graphs the ports {low} to {high} "
                f"(forwards.ports of node.yaml), not {port}",
            )
        if port in taken:
            text = f"{where}.host-tcp-port: {port} is in use by {taken[port]}; choose another"
            raise GraphRefused("templates", text)
        taken[port] = f"VNF {vnf.id}"
        found.append(Forward(address=config.address, host_port=port, vnf_port=model.vnf_tcp_port))
    return tuple(found)
