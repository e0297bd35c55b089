# SPDX-License-Identifier: Apache-2.0
"""Service graphs over many nodes, with Kubernetes as the place where they are wanted.

`manifests/` are the custom resources, `resources/` the same as models, `cutting/` divides a graph
over nodes, `core/` decides what is to be done (pure: no clock, no network), `controller/` does it
through the nodes' REST API and Kubernetes, `simulation/` drives the same core on simulated nodes,
`scheduling/` gives its cost to other schedulers.
"""
