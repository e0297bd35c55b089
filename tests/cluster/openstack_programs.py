# SPDX-License-Identifier: Apache-2.0
"""Runs in a Python that has OpenStack: serves Placement, or weighs hosts as Nova's scheduler does.

openstack_programs.py placement DATABASE      prints its port, serves until its input ends
openstack_programs.py weigh WEIGHER URL HOST...   prints the hosts, the best first
"""

import importlib.util
import sys
import threading
import types
from typing import Any


def placement(database: str) -> None:
    """Serves Placement with a database in a file and without Keystone."""
    from wsgiref.simple_server import WSGIRequestHandler, make_server

    from oslo_config import cfg
    from placement import conf, deploy

    config = cfg.ConfigOpts()
    conf.register_opts(config)
    config.set_override("connection", f"sqlite:///{database}", group="placement_database")
    config([], project="placement", default_config_files=[])
    config.set_override("sync_on_startup", True, group="placement_database")
    config.set_override("auth_strategy", "noauth2", group="api")

    class Quiet(WSGIRequestHandler):
        def log_message(self, *args: Any) -> None:
            """Nothing."""

    server = make_server("127.0.0.1", 0, deploy.loadapp(config), handler_class=Quiet)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_port, flush=True)
    sys.stdin.read()


def weigh(weigher: str, url: str, hosts: list[str]) -> None:
    """Weighs hosts for a flavor that is a VNF, with Nova's own handler of weights."""
    from nova.scheduler import weights

    spec = importlib.util.spec_from_file_location("headrace_weigher", weigher)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.CONF([], project="nova", default_config_files=[])
    module.CONF.set_override("extender_url", url, group="headrace")
    flavor = types.SimpleNamespace(extra_specs={"headrace:pps": "10000"}, vcpus=1, memory_mb=256)
    request = types.SimpleNamespace(flavor=flavor)
    states = [types.SimpleNamespace(host=host, nodename=host) for host in hosts]
    handler = weights.HostWeightHandler()
    best = handler.get_weighed_objects([module.HeadraceWeigher()], states, request)
    print(" ".join(f"{one.obj.host}={one.weight:.3f}" for one in best))


if __name__ == "__main__":
    if sys.argv[1] == "placement":
        placement(sys.argv[2])
    else:
        weigh(sys.argv[2], sys.argv[3], sys.argv[4:])
