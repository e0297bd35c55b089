// SPDX-License-Identifier: Apache-2.0
// ALL: every port but the one that a packet came in by.
#include "pipeline/operations/flooding.h"
#include "pipeline/program/pseudo_port.h"

namespace headrace::pipeline {

extern const PseudoPort pseudo_port_all{.number = kPortAll,
                                        .name = "ALL",
                                        .reaches_all = true,
                                        .run = send_to_all,
                                        .reference = reference_send_to_all};

}  // namespace headrace::pipeline
