# SPDX-License-Identifier: Apache-2.0
"""What the controller decides, without clock or network: time is an argument, actions are returned.

`fleet.py` is what nodes have and what is taken, `placing.py` where a graph goes, `vnis.py` numbers
of links, `health.py` when a node is lost and when it is trusted again, `watch.py` what is known of
nodes, `layout.py` a graph's wanted parts, `deployment.py` the way there, `core.py` all of it
together, `reports.py` what statuses say.
"""
