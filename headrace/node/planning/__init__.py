# SPDX-License-Identifier: Apache-2.0
"""From a client's document to a plan. Nothing here touches the switch or starts anything.

| module | what |
|---|---|
| `nffg` | the document as clients write it |
| `matching` | what each match key means |
| `surroundings` | a snapshot of the node, as planning needs it |
| `checks` | what is refused before anything is chosen, and rules that conflict |
| `end_points` | the physical ports that a graph's end-points are |
| `placement` | template, engine, port kind and cores of each VNF |
| `inventory`, `memory` | what the node has, and what the machine has now |
| `lowering` | the rules of LSI-0 and of the graph's LSI |
| `plan` | all of it, in order |
| `resources` | what a plan consists of |
"""
