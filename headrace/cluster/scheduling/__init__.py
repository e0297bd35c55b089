# SPDX-License-Identifier: Apache-2.0
"""The marginal cost of a VNF on a node, for schedulers that are not ours.

`cost.py` computes it, `pods.py` reads what a pod demands, `extender.py` serves kube-scheduler,
`service.py` keeps the nodes up to date, `bindings.py` what was bound since, `openstack/` serves
Nova and Placement.
"""
