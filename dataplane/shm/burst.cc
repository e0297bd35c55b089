// SPDX-License-Identifier: Apache-2.0
#include "shm/burst.h"

#include <cstring>

namespace headrace::shm {
namespace {

[[gnu::always_inline]] inline uint64_t word_of(const Packet& packet) {
  uint64_t word = 0;
  std::memcpy(&word, &packet, sizeof word);
  return word;
}

[[gnu::always_inline]] inline bool are_inside(const Packet* packets, uint32_t count,
                                              uint32_t n_buffers, uint32_t stride) {
  // What is out of bounds makes a difference negative.
  const int64_t last = int64_t{n_buffers} - 1;
  const int64_t room = stride;
  int64_t outside = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t word = word_of(packets[i]);
    const auto buffer = static_cast<int64_t>(word & 0xffffffff);
    const auto begin = static_cast<int64_t>(word >> 32 & 0xffff);
    const auto length = static_cast<int64_t>(word >> 48);
    outside |= (last - buffer) | (room - begin - length);
  }
  return outside >= 0;
}

[[gnu::always_inline]] inline bool same_buffers(const Packet* a, const Packet* b, uint32_t count) {
  uint64_t difference = 0;
  for (uint32_t i = 0; i < count; ++i) difference |= word_of(a[i]) ^ word_of(b[i]);
  return (difference & 0xffffffff) == 0;
}

[[gnu::always_inline]] inline uint64_t octets_of(const Packet* packets, uint32_t count) {
  uint64_t octets = 0;
  for (uint32_t i = 0; i < count; ++i) octets += word_of(packets[i]) >> 48;
  return octets;
}

/// Makes the functions once more, for the processors that `target` names.
#define HEADRACE_BURST_VARIANT(suffix, target)                                             \
  target bool are_inside_##suffix(const Packet* packets, uint32_t count, uint32_t buffers, \
                                  uint32_t stride) {                                       \
    return are_inside(packets, count, buffers, stride);                                    \
  }                                                                                        \
  target bool same_buffers_##suffix(const Packet* a, const Packet* b, uint32_t count) {    \
    return same_buffers(a, b, count);                                                      \
  }                                                                                        \
  target uint64_t octets_of_##suffix(const Packet* packets, uint32_t count) {              \
    return octets_of(packets, count);                                                      \
  }

HEADRACE_BURST_VARIANT(portable, )

constexpr BurstFunctions kPortable{are_inside_portable, same_buffers_portable, octets_of_portable,
                                   "portable"};

#if defined(__x86_64__)

HEADRACE_BURST_VARIANT(avx2, [[gnu::target("avx2")]])
// Vectors of 512 bits, which GCC avoids unless it is told.
HEADRACE_BURST_VARIANT(avx512, [[gnu::target("avx512f,avx512bw,avx512vl,prefer-vector-width=512")]])

constexpr BurstFunctions kVariants[] = {
    {are_inside_avx512, same_buffers_avx512, octets_of_avx512, "avx512"},
    {are_inside_avx2, same_buffers_avx2, octets_of_avx2, "avx2"},
    kPortable};

std::span<const BurstFunctions> supported() {
  __builtin_cpu_init();
  const std::span all(kVariants);
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return all;
  }
  return all.subspan(__builtin_cpu_supports("avx2") ? 1 : 2);
}

#else

constexpr BurstFunctions kVariants[] = {kPortable};

std::span<const BurstFunctions> supported() {
  return kVariants;
}

#endif

#undef HEADRACE_BURST_VARIANT

}  // namespace

std::span<const BurstFunctions> burst_variants() {
  static const std::span<const BurstFunctions> variants = supported();
  return variants;
}

}  // namespace headrace::shm
