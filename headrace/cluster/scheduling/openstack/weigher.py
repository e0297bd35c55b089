# SPDX-License-Identifier: Apache-2.0
"""A weigher of Nova: hosts by the marginal cost that `headrace cluster extender` answers.

A flavor whose extra specs have `headrace:pps` is a VNF; `headrace:frame_bytes`, `headrace:cycles`
and `headrace:port` say more, its cores and memory are the flavor's. Instances of other flavors are
weighed alike, and all are while the extender does not answer. This file needs Nova and Python's own
library alone; docs/kubernetes.md says how to install it.
"""

import json
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Any

import nova.conf
from nova.scheduler import weights
from oslo_config import cfg
from oslo_log import log

LOG = log.getLogger(__name__)
CONF = nova.conf.CONF
CONF.register_opts(
    [
        cfg.URIOpt("extender_url", schemes=["http", "https"], help="Of headrace cluster extender."),
        cfg.FloatOpt("timeout", default=1.0, help="Seconds to wait for it."),
        cfg.FloatOpt("weight_multiplier", default=1.0, help="Of the weight among others."),
    ],
    group="headrace",
)


def demand_of(flavor: Any) -> dict[str, Any] | None:
    """Body of POST /scores for a flavor; None: it is no VNF."""
    specs = flavor.extra_specs or {}
    if "headrace:pps" not in specs:
        return None
    return {
        "pps": float(specs["headrace:pps"]),
        "frame_bytes": float(specs.get("headrace:frame_bytes", 512)),
        "cycles": float(specs.get("headrace:cycles", 0)),
        "port": specs.get("headrace:port", "vhost-user"),
        "cores": flavor.vcpus,
        "memory_mb": flavor.memory_mb,
    }


def weights_of(hosts: Sequence[str], scores: Mapping[str, Mapping[str, Any]]) -> list[float]:
    """The negative costs; a host without one is as the dearest."""
    costs = {h: scores[h]["cost"] for h in hosts if scores.get(h, {}).get("cost") is not None}
    dearest = max(costs.values(), default=0.0)
    return [-float(costs.get(host, dearest)) for host in hosts]


class HeadraceWeigher(weights.BaseHostWeigher):  # type: ignore[misc]
    """The cheapest host has the greatest weight."""

    def weight_multiplier(self, host_state: Any) -> float:
        """As nova.conf says."""
        return float(CONF.headrace.weight_multiplier)

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        (weight,) = self._weights([host_state.host], weight_properties)
        return weight

    def weigh_objects(self, weighed_obj_list: Any, weight_properties: Any) -> list[float]:
        """All hosts by one request."""
        return self._weights([one.obj.host for one in weighed_obj_list], weight_properties)

    def _weights(self, hosts: list[str], request_spec: Any) -> list[float]:
        try:
            demand = demand_of(request_spec.flavor)
            if demand is None or not CONF.headrace.extender_url:
                return [0.0] * len(hosts)
            request = urllib.request.Request(  # noqa: S310  (the scheme is checked by URIOpt)
                f"{CONF.headrace.extender_url.rstrip('/')}/scores",
                json.dumps(demand).encode(),
                {"Content-Type": "application/json"},
            )
            with urllib.request.urlopen(request, timeout=CONF.headrace.timeout) as answer:  # noqa: S310
                return weights_of(hosts, json.load(answer))
        except (urllib.error.URLError, OSError, ValueError) as error:
            LOG.warning("headrace cluster extender: %s; hosts are weighed alike", error)
            return [0.0] * len(hosts)
