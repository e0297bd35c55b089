// SPDX-License-Identifier: Apache-2.0
// Frame sizes of a stream: a single size, or an IMIX by name.
//
// Sizes include the FCS, as in RFC 2544: 64 is a buffer of 60 bytes. "IMIX" means something else in
// every tool, so every result states the profile's definition and mean:
//   imix-nfvbench          64/594/1518 at 7:4:1   mean 361.83 (NFVbench, TRex)
//   imix-csit              64/570/1518 at 28:16:4 mean 353.83 (FD.io CSIT IMIX_v4_1)
//   imix-genome:<letters>  RFC 6985: a 64, b 128, c 256, d 512, e 1024, f 1280, g 1518, h 2112,
//                          z 9018 (a 9000-byte MTU); each letter is one packet of the pattern
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace headrace::traffic {

struct SizeProfile {
  static constexpr uint16_t kFcs = 4;
  static constexpr uint16_t kSmallest = 64;
  static constexpr uint16_t kLargest = 9018;

  std::string name;               ///< as configured: "64", "imix-csit"
  std::vector<uint16_t> sizes;    ///< distinct, ascending, with FCS
  std::vector<uint32_t> weights;  ///< packets of each size in one pattern, without common factor
  /// Indices into `sizes`: one pattern, in which each size is spread as evenly as possible (a
  /// genome keeps its order). Empty for a capture, whose packets have their own order.
  std::vector<uint8_t> pattern;

  /// One size.
  static Result<SizeProfile> fixed(uint64_t size);
  /// A named IMIX. Fails on unknown names.
  static Result<SizeProfile> imix(std::string_view name);
  /// An integer or a name; errors do not name the JSON path.
  static Result<SizeProfile> from_json(const nlohmann::json& value);

  [[nodiscard]] double mean() const;
  [[nodiscard]] uint16_t largest() const { return sizes.back(); }
  /// {"name","sizes","weights","mean"}
  [[nodiscard]] nlohmann::json to_json() const;
};

}  // namespace headrace::traffic
