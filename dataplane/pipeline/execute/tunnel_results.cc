// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/tunnel_results.h"

namespace headrace::pipeline {

using packet::TunnelResult;

DropReason drop_reason(TunnelResult result) noexcept {
  switch (result) {
    case TunnelResult::done:
      return DropReason::none;
    case TunnelResult::absent:
      return DropReason::bad_action;
    case TunnelResult::malformed:
      return DropReason::tunnel_malformed;
    case TunnelResult::fragment:
      return DropReason::tunnel_fragment;
    case TunnelResult::checksum:
      return DropReason::tunnel_checksum;
    case TunnelResult::message:
      return DropReason::tunnel_message;
    case TunnelResult::not_ip:
      return DropReason::tunnel_not_ip;
    case TunnelResult::no_headroom:
      return DropReason::no_headroom;
    case TunnelResult::too_long:
      return DropReason::tunnel_too_long;
  }
  return DropReason::bad_action;
}

}  // namespace headrace::pipeline
