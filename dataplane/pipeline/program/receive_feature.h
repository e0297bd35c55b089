// SPDX-License-Identifier: Apache-2.0
// Which receive features a port or an LSI asks for: see execute/receive_features.h.
#pragma once

#include <cstdint>

namespace headrace::pipeline {

/// In the order in which they run.
enum ReceiveFeatureBit : uint8_t {
  kReceiveReassemble = 1 << 0,     ///< LSI: fragments come in whole
  kReceiveTunnelFields = 1 << 1,   ///< port: packets have their tunnel's fields with them
  kReceiveMirror = 1 << 2,         ///< port: mirrors see what comes in
  kReceiveDropFragments = 1 << 3,  ///< LSI: fragments are dropped
};

}  // namespace headrace::pipeline
