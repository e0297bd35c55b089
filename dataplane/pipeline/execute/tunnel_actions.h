// SPDX-License-Identifier: Apache-2.0
// Push and pop of tunnels as actions: single-pass, in the table where they stand.
#pragma once

#include "packet/tunnel.h"
#include "pipeline/execute/action_runner.h"

namespace headrace::pipeline {

/// The name of what went wrong; none for `done`.
[[nodiscard]] DropReason drop_reason(packet::TunnelResult result) noexcept;

/// Encapsulates; the caller parses again. Anything but `none`: the packet is as it was.
[[nodiscard]] DropReason push_tunnel(const PacketView& view, const Op& op) noexcept;

/// Decapsulates and sets tunnel_id, tun_src and tun_dst; the caller parses again. Anything but
/// `none`: the packet is as it was.
[[nodiscard]] DropReason pop_tunnel(const PacketView& view, packet::TunnelKind kind) noexcept;

/// The same, with the header found already.
[[nodiscard]] DropReason pop_tunnel(const PacketView& view,
                                    const packet::TunnelFound& found) noexcept;

}  // namespace headrace::pipeline
