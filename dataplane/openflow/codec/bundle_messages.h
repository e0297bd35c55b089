// SPDX-License-Identifier: Apache-2.0
// Bundle control and bundle add on the wire.
//
// Source: ONF extension EXT-230 (the 1.3 form of OpenFlow 1.4's bundles).
#pragma once

#include <cstdint>

#include "openflow/codec/errors.h"
#include "openflow/codec/message.h"

namespace headrace::openflow {

inline constexpr uint32_t kBundleControl = 2300;     ///< exp_type ONF_ET_BUNDLE_CONTROL
inline constexpr uint32_t kBundleAddMessage = 2301;  ///< exp_type ONF_ET_BUNDLE_ADD_MESSAGE

enum class BundleControlType : uint16_t {
  open_request = 0,
  open_reply = 1,
  close_request = 2,
  close_reply = 3,
  commit_request = 4,
  commit_reply = 5,
  discard_request = 6,
  discard_reply = 7,
};

/// onf_bundle_ctrl_msg.
struct BundleControl {
  uint32_t bundle_id{0};
  BundleControlType type{BundleControlType::open_request};
  uint16_t flags{0};
};
/// `body` follows experimenter and exp_type.
OfResult<BundleControl> decode_bundle_control(Bytes body);
Message encode_bundle_control(uint32_t xid, const BundleControl& control);

/// onf_bundle_add_msg.
struct BundleAdd {
  uint32_t bundle_id{0};
  uint16_t flags{0};
  Bytes message;  ///< the inner message, header included
};
OfResult<BundleAdd> decode_bundle_add(Bytes body);

}  // namespace headrace::openflow
