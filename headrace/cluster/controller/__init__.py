# SPDX-License-Identifier: Apache-2.0
"""The controller: `driver.py` carries out what the core decides, `nodes.py` talks to nodes.

`kube.py` talks to the API server, `statuses.py` writes statuses there, `operator.py` has the
handlers of kopf that tell the driver what is wanted.
"""
