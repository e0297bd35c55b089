# SPDX-License-Identifier: Apache-2.0
"""What the controller decides, without clock or network: time is an argument, actions are returned.

`fleet.py` is what nodes have and what is taken, `placing.py` where a graph goes, `vnis.py` numbers
of links, `health.py` when a node is lost and when it is trusted again, `watch.py` what is known of
nodes, `layout.py` a graph's wanted parts, `deployment.py` the way there, `book.py` all graphs with
what is to be done next, `planning.py` which layout each is to have, `core.py` all of it together,
`settings.py` how it behaves, `reports.py` what statuses say.
"""
