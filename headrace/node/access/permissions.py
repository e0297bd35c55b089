# SPDX-License-Identifier: Apache-2.0
"""What a user may do with a graph, and how much of the node a user may take.

The permissions are the original node's defaults for graphs, as letters for read, update, delete:
owner AAA, the owner's group ADD, others DDD, administrators AAA. `exec`, a command in a VNF of the
graph, is the owner's if the user has that right, and the administrators'. A graph that is older
than login has no owner; it is the administrators'.
"""

from typing import Literal

from headrace.node.access.users import User, Users
from headrace.node.errors import AccessError
from headrace.node.planning.holdings import Others
from headrace.node.planning.resources import Plan

Action = Literal["read", "update", "delete", "exec"]

_ALLOWED: dict[str, frozenset[str]] = {
    "owner": frozenset({"read", "update", "delete"}),
    "group": frozenset({"read"}),
    "others": frozenset(),
}


def may(users: Users, user: User, action: Action, graph_id: str) -> bool:
    """Whether a user may do that with a graph."""
    if user.is_admin:
        return True
    owner = users.owner(graph_id)
    if owner is None:
        return False
    role = "owner" if owner[0] == user.name else "group" if owner[1] == user.group else "others"
    if action == "exec":
        return role == "owner" and user.may_exec
    return action in _ALLOWED[role]


def demand(users: Users, user: User, action: Action, graph_id: str) -> None:
    """Refuses what `may` does not allow.

    Raises:
        AccessError: with code 403.
    """
    if not may(users, user, action, graph_id):
        raise AccessError(403, f"user {user.name} may not {action} graph {graph_id!r}")


def demand_groups(users: Users, user: User, plan: Plan, others: Others) -> None:
    """Refuses to join a graph to one that the user may not read, by an internal group.

    Raises:
        AccessError: with code 403.
    """
    wanted = plan.groups().keys()
    if user.is_admin or not wanted:
        return
    for other, held in others.members():
        for group in wanted & held.keys():
            if not may(users, user, "read", other):
                raise AccessError(
                    403, f"internal-group {group!r} is that of another user's graphs; use another"
                )


def demand_quota(
    users: Users, user: User, graph_id: str, plan: Plan, others: dict[str, Plan]
) -> None:
    """Refuses a graph with which a user's graphs would take more than the quota allows.

    `plan` is what the graph would take, `others` what all graphs hold.

    Raises:
        AccessError: with code 403; says how much there is and what is asked for.
    """
    quota = user.quota
    if quota.graphs is None and quota.cores is None and quota.memory_mb is None:
        return
    mine = users.graphs_of(user.name)
    own = [held for other, held in others.items() if other in mine and other != graph_id]
    plans = [*own, plan]
    vnfs = [vnf for each in plans for vnf in each.vnfs()]
    for what, wanted, limit in (
        ("graphs", len(plans), quota.graphs),
        ("cores", sum(len(vnf.cores) for vnf in vnfs), quota.cores),
        ("MB of memory", sum(vnf.memory_mb for vnf in vnfs), quota.memory_mb),
    ):
        if limit is not None and wanted > limit:
            raise AccessError(
                403,
                f"graph {graph_id!r}: user {user.name} would have {wanted} {what}, the quota is "
                f"{limit}; delete a graph, or ask an administrator",
            )
