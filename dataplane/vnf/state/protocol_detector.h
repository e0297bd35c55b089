// SPDX-License-Identifier: Apache-2.0
// An RAII wrapper of nDPI: detects the application protocol of a flow from the payloads of its
// first packets.
//
// Why nDPI: Debian's libndpi 4.2 is LGPL-3.0-or-later, so a program under Apache-2.0 may link it
// dynamically (and does); it detects 282 protocols. Its example program ndpiReader, whose libraries
// have other licences, isn't used.
//
// Cost: detection takes some thousand cycles for each of a flow's first packets, and nDPI calls
// malloc() internally for some protocols (TLS, HTTP). So only packets before the decision are given
// to it, and the states of flows under detection are a pool allocated once.
//
// Thread safety: none; used by the worker only. name() and find() read immutable data.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

struct ndpi_detection_module_struct;
struct ndpi_flow_struct;

namespace headrace::vnf {

/// The detected protocol of a flow: DNS, or, within DNS or TLS, an application ("YouTube").
struct DetectedProtocol {
  uint16_t application{0};  ///< 0: not known
  uint16_t carrier{0};      ///< the protocol that carries the application; 0: none, or not known
  bool is_final{false};     ///< further packets cannot change it
};

class ProtocolDetector {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  /// `concurrent`: flows under detection at once.
  static Result<std::unique_ptr<ProtocolDetector>> make(uint32_t concurrent);
  ~ProtocolDetector();
  ProtocolDetector(const ProtocolDetector&) = delete;
  ProtocolDetector& operator=(const ProtocolDetector&) = delete;

  /// A state for a new flow; kNone if all are in use.
  uint32_t begin() noexcept;
  /// Processes the flow's next packet, from its IP header on. The epoch of `now_ms` is arbitrary.
  DetectedProtocol inspect(uint32_t state, std::span<const uint8_t> packet,
                           uint64_t now_ms) noexcept;
  /// The most likely protocol by all packets so far, ports included.
  DetectedProtocol conclude(uint32_t state) noexcept;
  /// Releases the state.
  void end(uint32_t state) noexcept;

  /// The number of protocols; protocol numbers are below it.
  [[nodiscard]] uint16_t protocols() const { return static_cast<uint16_t>(names_.size()); }
  [[nodiscard]] std::string_view name(uint16_t protocol) const { return names_[protocol]; }
  /// By name, case-insensitive.
  [[nodiscard]] std::optional<uint16_t> find(std::string_view name) const;
  /// The library's own version: "4.2.0".
  static std::string version();

 private:
  struct Free {
    void operator()(ndpi_detection_module_struct* module) const;
  };
  ProtocolDetector(ndpi_detection_module_struct* module, uint32_t concurrent)
      : module_(module), concurrent_(concurrent) {}
  [[nodiscard]] ndpi_flow_struct* flow(uint32_t state) noexcept;
  [[nodiscard]] DetectedProtocol of_known_numbers(DetectedProtocol protocol) const noexcept;

  std::unique_ptr<ndpi_detection_module_struct, Free> module_;
  std::vector<std::string> names_;
  uint32_t concurrent_;
  size_t flow_size_{0};
  std::vector<uint64_t> flows_;  ///< `concurrent` structs of nDPI's, each of flow_size_ octets
  std::vector<uint32_t> free_;
};

}  // namespace headrace::vnf
