# SPDX-License-Identifier: Apache-2.0
"""Cores and memory of the node that others than its VNFs have, such as the pods of a cluster.

They are in the node's database. What is reserved is not given to VNFs, and what VNFs have is not
reserved, so that a core has one poller whoever placed it.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from headrace.engines.base import VnfSpec
from headrace.node.config import NodeConfig
from headrace.node.deployment.store import Store
from headrace.node.errors import Busy, GraphRefused, NotFound
from headrace.node.planning.inventory import Inventory, Reserved


class Reservation(BaseModel):
    """What is reserved under one name: cores of node.yaml's `cores.vnf`, memory of `memory_mb`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    cores: Annotated[tuple[int, ...], Field(max_length=4096)] = ()
    memory_mb: Annotated[int, Field(ge=0, le=1 << 30)] = 0


class Reservations:
    """The reservations of a node; each change is on disk when it returns."""

    def __init__(self, store: Store, config: NodeConfig) -> None:
        self._store, self._config = store, config
        rows = store.rows("SELECT name, content FROM reservation ORDER BY name")
        self._all = {name: Reservation.model_validate_json(content) for name, content in rows}

    def all(self) -> Mapping[str, Reservation]:
        """The reservations by their names."""
        return self._all

    def reserved(self) -> tuple[Reserved, ...]:
        """The same for planning."""
        return tuple(Reserved(name, r.cores, r.memory_mb) for name, r in self._all.items())

    def put(self, name: str, wanted: Reservation, polls: bool, vnfs: Iterable[VnfSpec]) -> bool:
        """Reserves, or changes what is reserved under a name; whether there was nothing before.

        `polls`: the switch's cores are polled; `vnfs` are those of all graphs.

        Raises:
            GraphRefused: the node gives no such core to VNFs, or names one twice.
            Busy: a VNF or another reservation has a core, or too little memory is left.
        """
        pool = self._config.cores.vnf
        for core in wanted.cores:
            if core not in pool or wanted.cores.count(core) > 1:
                text = f"cores: {core} is none of the VNF cores {pool}, or is there twice"
                raise GraphRefused("reservations", text)
        others = [r for r in self.reserved() if r.name != name]
        inventory = Inventory(self._config, polls, vnfs, others)
        if not self._config.oversubscribe:
            taken = [core for core in wanted.cores if inventory.pollers(core)]
            if taken:
                raise Busy("reservations", f"cores {taken} are in use; GET /node/resources")
        if wanted.memory_mb > inventory.free_mb:
            text = f"memory_mb: {wanted.memory_mb} MB are asked for, {inventory.free_mb} are left"
            raise Busy("reservations", text)
        row = (name, wanted.model_dump_json())
        self._store.write("INSERT OR REPLACE INTO reservation VALUES (?,?)", *row)
        is_new = name not in self._all
        self._all[name] = wanted
        return is_new

    def drop(self, name: str) -> None:
        """Gives back what is reserved under a name.

        Raises:
            NotFound: that is nothing.
        """
        if name not in self._all:
            raise NotFound("reservations", f"there is no reservation {name!r}")
        self._store.write("DELETE FROM reservation WHERE name=?", name)
        del self._all[name]
