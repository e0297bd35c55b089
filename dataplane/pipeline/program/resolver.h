// SPDX-License-Identifier: Apache-2.0
// Where compiled ops get the RCU handles that numbers stand for.
#pragma once

#include <cstdint>

#include "pipeline/terms/numbers.h"

namespace headrace::pipeline {

class GroupHandle;
class MeterHandle;
struct PortHandle;

class Resolver {
 public:
  virtual ~Resolver() = default;
  /// The handle of a port, made if need be: a rule may name a port that is yet to come.
  virtual const PortHandle* port_handle(PortNo number) = 0;
  /// The handle of a group or meter that exists, or null.
  virtual const GroupHandle* group_handle(uint32_t group_id) = 0;
  virtual const MeterHandle* meter_handle(uint32_t meter_id) = 0;
};

}  // namespace headrace::pipeline
