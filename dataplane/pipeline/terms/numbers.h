// SPDX-License-Identifier: Apache-2.0
// OpenFlow's numbers: reserved ports, groups, meters and tables; its errors.
//
// Source: OpenFlow Switch Specification 1.3.5, sections 7.2.1, 7.3.4, 7.4.4.
#pragma once

#include <array>
#include <cstdint>
#include <tl/expected.hpp>

namespace headrace::pipeline {

using PortNo = uint32_t;
using MacAddress = std::array<uint8_t, 6>;

/// Reserved ports (section 7.2.1, ofp_port_no).
inline constexpr PortNo kPortMax = 0xffffff00;
inline constexpr PortNo kPortInPort = 0xfffffff8;
inline constexpr PortNo kPortTable = 0xfffffff9;
inline constexpr PortNo kPortNormal = 0xfffffffa;
inline constexpr PortNo kPortFlood = 0xfffffffb;
inline constexpr PortNo kPortAll = 0xfffffffc;
inline constexpr PortNo kPortController = 0xfffffffd;
inline constexpr PortNo kPortLocal = 0xfffffffe;
inline constexpr PortNo kPortAny = 0xffffffff;

inline constexpr uint32_t kGroupMax = 0xffffff00;
inline constexpr uint32_t kGroupAll = 0xfffffffc;
inline constexpr uint32_t kGroupAny = 0xffffffff;
inline constexpr uint32_t kMeterMax = 0xffff0000;
inline constexpr uint32_t kMeterAll = 0xffffffff;
inline constexpr uint8_t kTableAll = 0xff;
inline constexpr uint8_t kTableCount = 254;  ///< tables 0..253
inline constexpr uint16_t kNoBufferLength = 0xffff;
inline constexpr uint32_t kNoBuffer = 0xffffffff;

/// What becomes of IP fragments (section 7.3.2, ofp_config_flags).
enum class FragmentMode : uint8_t { normal, drop, reassemble };

/// An OpenFlow error: ofp_error_type and the code under it (section 7.4.4).
struct OfError {
  uint16_t type;
  uint16_t code;
  bool operator==(const OfError&) const = default;
};

template <typename T = void>
using OfResult = tl::expected<T, OfError>;

}  // namespace headrace::pipeline
