# SPDX-License-Identifier: Apache-2.0
"""A directory for a node, and nodes that are torn down whatever happens in the test."""

import shutil
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headrace.machine.places import image_directory
from headrace.node.config import from_dict
from headrace.node.datastore.datastore import Datastore
from headrace.node.node import Node
from headrace.node.tear_down import tear_down
from headrace.node.templates import load
from tests.node.api import Api, api_of
from tests.support.janitor import removed_at_the_latest

StartNode = Callable[..., Awaitable[Node]]


def give_template(node: Node, file: str) -> None:
    """Gives a running node the template of a file, instead of those that it has."""
    node.datastore = Datastore(
        node.store,
        load([Path(file)]),
        node.config.datastore,
        image_directory(node.rundir),
        node.graphs.holdings.plans,
    )


@pytest.fixture
def rundir() -> Iterator[Path]:
    """A new directory with a short name, as Unix sockets need."""
    directory = Path(tempfile.mkdtemp(prefix="hr-"))
    with removed_at_the_latest("node", directory):
        yield directory
        shutil.rmtree(directory, ignore_errors=True)


@pytest.fixture
async def start_node(rundir: Path) -> AsyncIterator[StartNode]:
    """Starts nodes of one directory; ends them and everything they made after the test."""
    nodes: list[Node] = []

    async def start(**settings: Any) -> Node:
        node = Node(from_dict(settings), rundir)
        nodes.append(node)
        await node.start()
        return node

    yield start
    for node in nodes:
        await node.graphs.settle()
    await tear_down(rundir)


@pytest.fixture
async def api(rundir: Path) -> AsyncIterator[Api]:
    async for made in api_of(rundir):
        yield made
