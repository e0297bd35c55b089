// SPDX-License-Identifier: Apache-2.0
// Streams, read from their descriptions in the control protocol.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/result.h"
#include "traffic/frames/frame_set.h"
#include "traffic/frames/header_stack.h"
#include "traffic/frames/popularity.h"
#include "traffic/frames/replay.h"
#include "traffic/frames/size_profile.h"

namespace headrace::traffic {

/// One stream: packets with the same headers from `tx_port`, expected at `rx_port`.
struct Stream {
  std::string name;
  std::string tx_port;
  std::string rx_port;
  double share{1};  ///< weight of its share of the load
  SizeProfile sizes;
  FrameSet frames;                       ///< empty for a replay
  std::shared_ptr<const Replay> replay;  ///< the packets of a capture, or none
  double replay_speed{
      0};  ///< relative to the capture's own timing; 0: sent at the stream's rate instead
  Popularity popularity;
  std::vector<uint32_t> order;  ///< of the flows; empty: round robin

  [[nodiscard]] uint32_t flows() const { return replay ? replay->flows() : frames.flows(); }
  /// {"name","size","flows","popularity"}: the properties that a result must state to be
  /// comparable.
  [[nodiscard]] nlohmann::json to_json() const;
};

/// Reads a list of stream descriptions (docs/traffic.md) at `path` and computes their frames.
/// Errors name the member: "/streams/0/size: ...".
Result<std::vector<Stream>> read_streams(const nlohmann::json& list, const std::string& path);

}  // namespace headrace::traffic
