# SPDX-License-Identifier: Apache-2.0
"""What a graph asks for a VNF beside its ports: environment variables and forwarded TCP ports.

Both have the original API's names (`unify-env-variables`, `unify-control`), and the template
decides which a graph may have.
"""

from headrace.engines.base import Forward
from headrace.engines.environment import ANY, fault_of, may_set
from headrace.node.config import ForwardsConfig
from headrace.node.errors import GraphRefused
from headrace.node.planning.nffg import VnfModel
from headrace.node.templates import Template


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
