// SPDX-License-Identifier: Apache-2.0
// FLOOD: as ALL: no port is blocked here.
#include "pipeline/operations/flooding.h"
#include "pipeline/program/pseudo_port.h"

namespace headrace::pipeline {

extern const PseudoPort pseudo_port_flood{.number = kPortFlood,
                                          .name = "FLOOD",
                                          .reaches_all = true,
                                          .run = send_to_all,
                                          .reference = reference_send_to_all};

}  // namespace headrace::pipeline
