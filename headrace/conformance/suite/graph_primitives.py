# SPDX-License-Identifier: Apache-2.0
"""Tests 3 to 7: the primitives of the NF-FG management interface."""

import copy

from headrace.conformance.case import Case, Part
from headrace.conformance.findings import Findings, NotApplicable
from headrace.conformance.graphs import Graph, between, inner, rules_of, vlan, wire
from headrace.conformance.target import Target


def _broken(document: Graph) -> Graph:
    """The graph with a rule that leads to a VNF that it has not."""
    made = copy.deepcopy(document)
    rules_of(made)[0]["actions"] = [{"output_to_port": "vnf:nobody:port:0"}]
    return made


def _codes(codes: tuple[int, ...]) -> str:
    return " or ".join(map(str, codes))


async def deploy(target: Target, findings: Findings) -> None:
    """Test 3."""
    node, dialect = target.node, target.node.dialect
    first, second = await target.two_ports()
    document = wire(first, second)
    name = node.name()
    answer, given = await node.deploy(name, document)
    findings.demand(
        "the node answers a deployment with a code of success",
        answer.status in dialect.deployed,
        _codes(dialect.deployed),
        answer,
    )
    findings.demand("the graph has an id", bool(given), "an id", answer)
    location = answer.headers.get("location")
    if location is not None or dialect.name == "headrace":
        ends = (location or "").rstrip("/").rpartition("/")[2]
        findings.equal("Location names the graph", given, ends)
    await node.remove(given)
    if dialect.name == "headrace":
        made = await node.rest("POST", dialect.root, document)
        new = made.member("nffg-uuid")
        findings.equal("the answer to POST is 201", 201, made.status)
        if findings.holds("it has the id that the node gave", isinstance(new, str), "an id", made):
            findings.equal("under it the graph is found", 200, (await node.data(new)).status)
            await node.remove(new)
    broken = node.name()
    refused, left = await node.deploy(broken, _broken(document))
    findings.holds(
        "a graph whose rule leads to a VNF that it has not is refused",
        refused.status == 400,
        "400",
        refused,
    )
    if left and refused.good:
        await node.remove(left)
    refused, left = await node.deploy(node.name(), wire("nowhere", second))
    findings.holds(
        "a graph on a port that the node has not is refused", refused.status == 400, "400", refused
    )
    if left and refused.good:
        await node.remove(left)


async def modify(target: Target, findings: Findings) -> None:
    """Test 4."""
    node, dialect = target.node, target.node.dialect
    first, second = await target.two_ports()
    document = wire(first, second)
    async with node.with_graph(document) as name:
        changed = wire(first, second, priority=77)
        answer = await dialect.modify(node.rest, name, changed)
        findings.demand(
            "the node answers a modification with a code of success",
            answer.status in dialect.modified,
            _codes(dialect.modified),
            answer,
        )
        refused = await dialect.modify(node.rest, name, _broken(changed))
        findings.holds(
            "a modification to a rule that leads nowhere is refused",
            refused.status == 400,
            "400",
            refused,
        )
        if dialect.status:
            status = await node.status(name)
            findings.equal(
                "after a refused modification the graph is complete", "complete",
                status.member("status"),
            )  # fmt: skip
    if not dialect.chooses_id:
        answer = await dialect.modify(node.rest, node.name(), document)
        findings.holds(
            "a modification of a graph that is not is refused",
            answer.status in dialect.unknown,
            _codes(dialect.unknown),
            answer,
        )


async def delete(target: Target, findings: Findings) -> None:
    """Test 5."""
    node, dialect = target.node, target.node.dialect
    name = await node.bring(wire(*await target.two_ports()))
    answer = await node.remove(name)
    findings.demand(
        "the node answers a deletion with a code of success",
        answer.status in dialect.deleted,
        _codes(dialect.deleted),
        answer,
    )
    again = await node.remove(name)
    findings.holds(
        "a second deletion of the graph is answered: there is none",
        again.status in (*dialect.unknown, 404, 405),
        _codes(dialect.unknown),
        again,
    )


async def list_graphs(target: Target, findings: Findings) -> None:
    """Test 6."""
    node, dialect = target.node, target.node.dialect

    async def listed() -> set[str]:
        answer = await node.rest.get(dialect.root)
        findings.demand("the node answers with 200", answer.status == 200, 200, answer)
        names = dialect.listed(answer)
        findings.demand("the answer is a list of graphs with ids", names is not None, "a list",
                        answer)  # fmt: skip
        return set(names or ())

    if dialect.name == "g0":
        raise NotApplicable("the API of generation g0 has no list of graphs")
    before = await listed()
    first, second = await target.two_ports()
    names = []
    tags = (901, 902, 903)
    for tag in tags:
        document = between(vlan("a", first, tag), vlan("b", second, tag), f"listed {tag}")
        names.append(await node.bring(document))
    findings.equal("three graphs more are listed", before | set(names), await listed())
    await node.remove(names[1])
    findings.equal(
        "without the one that was deleted", before | {names[0], names[2]}, await listed()
    )
    for name in (names[0], names[2]):
        await node.remove(name)
    findings.equal("and at the end those that were there before", before, await listed())


async def read(target: Target, findings: Findings) -> None:
    """Test 7."""
    node, dialect = target.node, target.node.dialect
    first, second = await target.two_ports()
    document = wire(first, second, "read back", priority=123)
    async with node.with_graph(document) as name:
        answer = await node.data(name)
        findings.demand("the node answers with 200", answer.status == 200, 200, answer)
        found = dialect.read(answer)
        findings.demand("the answer is a graph", found is not None, "a graph", answer)
        assert found is not None
        if dialect.name == "g0":
            findings.holds("it has rules", bool(found["flow-graph"]), "rules", answer)
        else:
            _same(findings, document, found)
    gone = await node.data(node.name())
    findings.holds(
        "the data of a graph that is not are refused",
        gone.status in (*dialect.unknown, 404, 405),
        _codes(dialect.unknown),
        gone,
    )


def _same(findings: Findings, sent: Graph, found: Graph) -> None:
    """Compares what was sent with what came, in what every generation echoes."""
    findings.equal("its name", inner(sent)["name"], inner(found).get("name"))

    def points(document: Graph) -> list[tuple[str, str]]:
        every = inner(document).get("end-points", [])
        return sorted((each["id"], each["interface"]["if-name"]) for each in every)

    findings.equal("its end-points", points(sent), points(found))

    def rules(document: Graph) -> list[tuple[str, int, str, str]]:
        return sorted(
            (
                str(each["id"]),
                int(each.get("priority", 0)),
                str(each["match"]["port_in"]),
                str(sorted(action.get("output_to_port", "") for action in each["actions"])),
            )
            for each in rules_of(document)
        )

    findings.equal(
        "its flow rules: id, priority, input and outputs",
        "; ".join(map(str, rules(sent))),
        "; ".join(map(str, rules(found))),
    )


_BOOTED = "The node is up."
_ONE = "The node is up, with a graph deployed."

CASES = (
    Case(
        3, "NMI: NF-FG deployment", Part.INTERFACES, _BOOTED,
        ("A graph that joins two ports is deployed, under an id of the client's and, where the API "
         "has that, under one of the node's.",
         "Graphs that can't be are sent: a rule that leads to no VNF, a port that there is not."),
        "A code of success and the graph's id (in the answer, in Location); 400 for what can't be.",
        deploy,
    ),
    Case(
        4, "NMI: NF-FG modification", Part.INTERFACES, _ONE,
        ("A new version of the graph is sent.",
         "A version is sent whose rule leads to no VNF."),
        "A code of success for the first; 400 for the second, and the graph stays complete.",
        modify,
    ),
    Case(
        5, "NMI: NF-FG deletion", Part.INTERFACES, _ONE,
        ("The graph is deleted.", "It is deleted again."),
        "A code of success, then one that says that there is none.",
        delete,
    ),
    Case(
        6, "NMI: NF-FGs list", Part.INTERFACES, "The node is up, with three graphs deployed.",
        ("All graphs are asked for.", "One is deleted, and they are asked for again."),
        "The ids of all graphs that are deployed, and of no other.",
        list_graphs,
    ),
    Case(
        7, "NMI: NF-FG data", Part.INTERFACES, _ONE,
        ("The graph's data are asked for.", "Those of a graph that is not are asked for."),
        "The document that was sent: name, end-points, rules with priority, input and outputs.",
        read,
    ),
)  # fmt: skip
