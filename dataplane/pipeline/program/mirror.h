// SPDX-License-Identifier: Apache-2.0
// Mirrors as workers see them. Immutable once published; all but the counts.
//
// Which mirrors have had a packet is a mark on it, good inside one LSI: set to 0 when the packet
// comes in, in LSIs with mirrors only.
#pragma once

#include <rte_mbuf.h>
#include <rte_mbuf_dyn.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/virtual_array.h"
#include "pipeline/terms/limits.h"
#include "pipeline/terms/mirror_config.h"

namespace headrace::pipeline {

struct PortHandle;

/// One worker's share of what a mirror has sent.
struct alignas(64) MirrorCount {
  uint64_t packets;
  uint64_t bytes;
};

/// By worker; outlives the programs that count here.
using MirrorCounts = VirtualArray<MirrorCount>;

struct Mirror {
  uint32_t bit{0};   ///< its own in a packet's mark
  uint32_t same{0};  ///< with those of the mirrors that have the same output: none gets it twice
  std::optional<MirrorConfig::VlanSet> vlans{};  ///< none: any
  const PortHandle* output{nullptr};             ///< null: by VLAN
  uint16_t output_vlan{0};
  std::vector<const PortHandle*> carriers;  ///< of output_vlan
  uint32_t max_length{UINT32_MAX};          ///< octets
  std::shared_ptr<MirrorCounts> counts{};
};

/// What a port of an LSI with mirrors is to them.
struct PortMirrors {
  std::vector<std::shared_ptr<const Mirror>> received;  ///< that select what comes in
  std::vector<std::shared_ptr<const Mirror>> sent;      ///< that select what leaves
};

/// The mark's offset in an mbuf; -1: there have never been mirrors.
inline int g_mirror_mark_at = -1;

/// Prepares the mark; once, before the first mirror. False: the EAL has no room left in its
/// buffers.
[[nodiscard]] inline bool enable_mirror_marks() {
  if (g_mirror_mark_at >= 0) return true;
  const rte_mbuf_dynfield field{
      .name = "headrace_mirrors", .size = sizeof(uint32_t), .align = alignof(uint32_t), .flags = 0};
  g_mirror_mark_at = rte_mbuf_dynfield_register(&field);
  return g_mirror_mark_at >= 0;
}

/// The bits of the mirrors that have had the packet; marks must be enabled.
inline uint32_t& mirror_mark(rte_mbuf* packet) noexcept {
  return *RTE_MBUF_DYNFIELD(packet, g_mirror_mark_at, uint32_t*);
}

}  // namespace headrace::pipeline
