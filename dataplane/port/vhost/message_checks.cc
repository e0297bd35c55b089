// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/message_checks.h"

#include <rte_vhost.h>

#include <bit>
#include <cstdint>
#include <cstring>

namespace headrace::port::vhost {
namespace {

constexpr uint32_t kSetMemTable = 5;
constexpr uint32_t kSetLogBase = 6;
constexpr uint32_t kSetVringNum = 8;
constexpr uint32_t kMostRegions = 8;
/// No address of a process has this bit or one above it, whatever the octets are rounded up to.
constexpr uint64_t kTooMany = 1ULL << 62;
constexpr uint32_t kMostDescriptors = 32768;
constexpr uint64_t kPackedRings = 1ULL << 34;
constexpr uint16_t kWrap = 1 << 15;

/// The begin of a message, and the payload of those that say a number of a vring.
struct VringMessage {
  uint32_t request;
  uint32_t flags;
  uint32_t size;
  uint32_t vring;
  uint32_t number;
};

/// The begin of SET_LOG_BASE.
struct LogMessage {
  uint32_t request;
  uint32_t flags;
  uint32_t size;
  uint64_t octets;
  uint64_t offset;
} __attribute__((packed));

/// SET_MEM_TABLE.
struct MemoryMessage {
  uint32_t request;
  uint32_t flags;
  uint32_t size;
  uint32_t regions;
  uint32_t padding;
  struct Region {
    uint64_t guest;
    uint64_t octets;
    uint64_t user;
    uint64_t offset;
  } __attribute__((packed)) region[kMostRegions];  // it is read where it lies, at no multiple of 8
} __attribute__((packed));

uint32_t request_of(const void* message) {
  uint32_t request = 0;
  std::memcpy(&request, message, sizeof request);
  return request;
}

bool is_packed(int vid) {
  uint64_t features = 0;
  return rte_vhost_get_negotiated_features(vid, &features) == 0 && (features & kPackedRings) != 0;
}

bool has_wrong_size(int vid, const void* message) {
  VringMessage said{};
  std::memcpy(&said, message, sizeof said);
  if (said.number == 0 || said.number > kMostDescriptors) return true;
  if (!is_packed(vid) && !std::has_single_bit(said.number)) return true;
  rte_vhost_vring vring{};
  const bool is_mapped =
      rte_vhost_get_vhost_vring(vid, static_cast<uint16_t>(said.vring), &vring) == 0 &&
      vring.desc != nullptr;
  return is_mapped && vring.size != said.number;
}

bool has_offset(const void* message) {
  LogMessage said{};
  std::memcpy(&said, message, sizeof said);
  return said.offset != 0;
}

bool has_impossible_region(const void* message) {
  MemoryMessage said{};
  std::memcpy(&said, message, sizeof said);
  if (said.regions > kMostRegions) return true;
  for (uint32_t i = 0; i < said.regions; ++i) {
    const MemoryMessage::Region& region = said.region[i];
    if (region.octets == 0 || region.octets >= kTooMany || region.offset >= kTooMany) return true;
  }
  return false;
}

}  // namespace

bool is_refused(int vid, const void* message) {
  switch (request_of(message)) {
    case kSetMemTable:
      return has_impossible_region(message);
    case kSetLogBase:
      return has_offset(message);
    case kSetVringNum:
      return has_wrong_size(vid, message);
    default:
      return false;
  }
}

bool changes_memory(const void* message) {
  return request_of(message) == kSetMemTable;
}

void confine_positions(int vid) {
  if (!is_packed(vid)) return;
  const uint16_t vrings = rte_vhost_get_vring_num(vid);
  for (uint16_t i = 0; i < vrings; ++i) {
    rte_vhost_vring vring{};
    uint16_t next = 0;
    uint16_t used = 0;
    if (rte_vhost_get_vhost_vring(vid, i, &vring) != 0 || vring.size == 0 ||
        rte_vhost_get_vring_base(vid, i, &next, &used) != 0) {
      continue;
    }
    if ((next & ~kWrap) < vring.size && (used & ~kWrap) < vring.size) continue;
    rte_vhost_set_vring_base(vid, i, kWrap, kWrap);
  }
}

}  // namespace headrace::port::vhost
