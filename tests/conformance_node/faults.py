# SPDX-License-Identifier: Apache-2.0
"""The faults of the faulty node: number n is one that Test n finds, and no other test.

Each is a fault that a node could well have and hide: the interface answers with success, and what
it says or does is wrong in one respect. Where it is in the node's code stands `self.fault == n`.
"""

FAULTS = {
    1: "reports twice the processor's cores as its capacity",
    2: "reports the whole disk as available, whatever is on it",
    3: "names another graph in the Location of a deployment",
    4: "accepts a modification whose rule leads to a VNF that the graph has not",
    5: "answers the deletion of a graph that is not with success",
    6: "leaves the graph that was deployed last out of the list",
    7: "gives a graph back without the priorities of its rules",
    8: "lists only the first template of a type",
    9: "gives a template back with another memory size",
    10: "gives an image back without its last octet",
    11: "tells the layer above of twice the memory that it has",
    12: "does not tell the layer above of a graph's deletion",
    13: "says that a VNF has been scaled, and gives it nothing",
    14: "leaves the rules of the version before in force after an update",
    15: "takes more with the optimization of placement than without",
    16: "runs a container's VNF as a process on the host",
    17: "declares a type of end-point that it refuses",
    18: "floods frames of VLANs that are no graph's to a further port",
    19: "counts a packet less than each rule has matched",
    20: "leaves the LSI of a graph that was deleted",
    21: "does not put the tag on where traffic leaves by a VLAN",
    22: "loses one of a hundred frames of 1500 octets in pass-through VNFs",
    23: "spends no more on a VNF that computes when its load rises",
    24: "loses what exceeds a hundred flows in a VNF that works on memory",
    25: "forgets every fiftieth rule of a large update",
    26: "answers a burst of requests with success, and forgets one of the graphs",
}
