# SPDX-License-Identifier: Apache-2.0
"""The policies that node.yaml's `placement` can name: a new one is a file and a line here."""

from collections.abc import Callable

from headrace.model.mechanistic.fitting import Fitted
from headrace.node.planning.by_model import ByModel
from headrace.node.planning.policy import FirstFit, PlacementPolicy

Terms = Callable[[], Fitted | None]
"""Gives the node's fitted and learned terms, None if it has no model."""

POLICIES: dict[str, Callable[[Terms], PlacementPolicy]] = {
    FirstFit.name: lambda terms: FirstFit(),
    ByModel.name: ByModel,
}
