// SPDX-License-Identifier: Apache-2.0
#include "shm/burst.h"

#include <cstring>

#if defined(__x86_64__)
// gcc 12 takes the undefined operands of its own AVX-512 intrinsics for mistakes (bug 105593).
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#define HEADRACE_BURST_AVX2 __attribute__((target("avx2")))
#define HEADRACE_BURST_AVX512 __attribute__((target("avx512f")))
#endif

namespace headrace::shm {
namespace {

/// One read that the compiler can't repeat.
uint64_t read_once(const Packet& slot) {
  return *reinterpret_cast<const volatile uint64_t*>(&slot);
}
void write(Packet& to, uint64_t word) {
  std::memcpy(&to, &word, sizeof word);
}

// --- any processor -----------------------------------------------------------------------------

bool take_portable(Packet* packets, const Packet* slots, uint32_t count, uint32_t n_buffers,
                   uint32_t stride) {
  // What is out of bounds makes a difference negative: no branch for each packet.
  const int64_t last = int64_t{n_buffers} - 1;
  const int64_t room = stride;
  int64_t outside = 0;
  for (uint32_t i = 0; i < count; ++i) {
    const uint64_t word = read_once(slots[i]);
    write(packets[i], word);
    const auto buffer = static_cast<int64_t>(word & 0xffffffff);
    const auto begin = static_cast<int64_t>(word >> 32 & 0xffff);
    const auto length = static_cast<int64_t>(word >> 48);
    outside |= (last - buffer) | (room - begin - length);
  }
  return outside >= 0;
}

uint64_t put_portable(Packet* slots, const Packet* packets, uint32_t count) {
  uint64_t octets = 0;
  for (uint32_t i = 0; i < count; ++i) {
    slots[i] = packets[i];
    octets += packets[i].length;
  }
  return octets;
}

bool same_buffers_portable(const Packet* packets, const Packet* slots, uint32_t count) {
  uint32_t difference = 0;
  for (uint32_t i = 0; i < count; ++i) difference |= packets[i].buffer ^ slots[i].buffer;
  return difference == 0;
}

constexpr BurstFunctions kPortable{take_portable, put_portable, same_buffers_portable, "portable"};

#if defined(__x86_64__)

// --- AVX2 --------------------------------------------------------------------------------------

HEADRACE_BURST_AVX2 inline __m256i load_avx2(const Packet* at) {
  __m256i words = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  __asm__ volatile("" : "+x"(words));  // the compiler can't read the memory again
  return words;
}
HEADRACE_BURST_AVX2 inline void store_avx2(Packet* at, __m256i words) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(at), words);
}

HEADRACE_BURST_AVX2 bool take_avx2(Packet* packets, const Packet* slots, uint32_t count,
                                   uint32_t n_buffers, uint32_t stride) {
  const __m256i last = _mm256_set1_epi64x(int64_t{n_buffers} - 1);
  const __m256i room = _mm256_set1_epi64x(stride);
  const __m256i low32 = _mm256_set1_epi64x(0xffffffff);
  const __m256i low16 = _mm256_set1_epi64x(0xffff);
  __m256i outside = _mm256_setzero_si256();
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m256i words = load_avx2(slots + i);
    store_avx2(packets + i, words);
    const __m256i buffer = _mm256_and_si256(words, low32);
    const __m256i begin = _mm256_and_si256(_mm256_srli_epi64(words, 32), low16);
    const __m256i end = _mm256_add_epi64(begin, _mm256_srli_epi64(words, 48));
    outside = _mm256_or_si256(outside, _mm256_sub_epi64(last, buffer));
    outside = _mm256_or_si256(outside, _mm256_sub_epi64(room, end));
  }
  const bool inside = _mm256_movemask_pd(_mm256_castsi256_pd(outside)) == 0;
  return take_portable(packets + i, slots + i, count - i, n_buffers, stride) && inside;
}

HEADRACE_BURST_AVX2 uint64_t put_avx2(Packet* slots, const Packet* packets, uint32_t count) {
  __m256i octets = _mm256_setzero_si256();
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m256i words = load_avx2(packets + i);
    store_avx2(slots + i, words);
    octets = _mm256_add_epi64(octets, _mm256_srli_epi64(words, 48));
  }
  const __m128i halves =
      _mm_add_epi64(_mm256_castsi256_si128(octets), _mm256_extracti128_si256(octets, 1));
  const auto sum = static_cast<uint64_t>(_mm_cvtsi128_si64(halves) +
                                         _mm_cvtsi128_si64(_mm_unpackhi_epi64(halves, halves)));
  return sum + put_portable(slots + i, packets + i, count - i);
}

HEADRACE_BURST_AVX2 bool same_buffers_avx2(const Packet* packets, const Packet* slots,
                                           uint32_t count) {
  __m256i difference = _mm256_setzero_si256();
  uint32_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const __m256i both = _mm256_xor_si256(load_avx2(packets + i), load_avx2(slots + i));
    difference = _mm256_or_si256(difference, both);
  }
  const bool same = _mm256_testz_si256(difference, _mm256_set1_epi64x(0xffffffff)) != 0;
  return same_buffers_portable(packets + i, slots + i, count - i) && same;
}

// --- AVX-512 -----------------------------------------------------------------------------------

/// The lanes of the last, incomplete vector of a burst.
HEADRACE_BURST_AVX512 inline __mmask8 rest_of(uint32_t count) {
  return static_cast<__mmask8>((1u << (count % 8)) - 1);
}
HEADRACE_BURST_AVX512 inline __m512i load_avx512(const Packet* at) {
  __m512i words = _mm512_loadu_si512(at);
  __asm__ volatile("" : "+v"(words));  // the compiler can't read the memory again
  return words;
}
HEADRACE_BURST_AVX512 inline __m512i load_avx512(const Packet* at, __mmask8 mask) {
  __m512i words = _mm512_maskz_loadu_epi64(mask, at);
  __asm__ volatile("" : "+v"(words));
  return words;
}

HEADRACE_BURST_AVX512 bool take_avx512(Packet* packets, const Packet* slots, uint32_t count,
                                       uint32_t n_buffers, uint32_t stride) {
  const __m512i last = _mm512_set1_epi64(int64_t{n_buffers} - 1);
  const __m512i room = _mm512_set1_epi64(stride);
  const __m512i low32 = _mm512_set1_epi64(0xffffffff);
  const __m512i low16 = _mm512_set1_epi64(0xffff);
  __m512i outside = _mm512_setzero_si512();
  // As take_portable(): negative if it is out of bounds.
  const auto check = [&](__m512i words) HEADRACE_BURST_AVX512 {
    const __m512i buffer = _mm512_and_epi64(words, low32);
    const __m512i begin = _mm512_and_epi64(_mm512_srli_epi64(words, 32), low16);
    const __m512i end = _mm512_add_epi64(begin, _mm512_srli_epi64(words, 48));
    outside = _mm512_or_epi64(outside, _mm512_sub_epi64(last, buffer));
    outside = _mm512_or_epi64(outside, _mm512_sub_epi64(room, end));
  };
  uint32_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m512i words = load_avx512(slots + i);
    _mm512_storeu_si512(packets + i, words);
    check(words);
  }
  if (i < count) {
    const __mmask8 mask = rest_of(count);
    const __m512i words = load_avx512(slots + i, mask);
    _mm512_mask_storeu_epi64(packets + i, mask, words);
    check(words);  // the other lanes are packets of no octets in buffer 0
  }
  return _mm512_cmplt_epi64_mask(outside, _mm512_setzero_si512()) == 0;
}

HEADRACE_BURST_AVX512 uint64_t put_avx512(Packet* slots, const Packet* packets, uint32_t count) {
  __m512i octets = _mm512_setzero_si512();
  uint32_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m512i words = load_avx512(packets + i);
    _mm512_storeu_si512(slots + i, words);
    octets = _mm512_add_epi64(octets, _mm512_srli_epi64(words, 48));
  }
  if (i < count) {
    const __mmask8 mask = rest_of(count);
    const __m512i words = load_avx512(packets + i, mask);
    _mm512_mask_storeu_epi64(slots + i, mask, words);
    octets = _mm512_add_epi64(octets, _mm512_srli_epi64(words, 48));
  }
  return static_cast<uint64_t>(_mm512_reduce_add_epi64(octets));
}

HEADRACE_BURST_AVX512 bool same_buffers_avx512(const Packet* packets, const Packet* slots,
                                               uint32_t count) {
  __m512i difference = _mm512_setzero_si512();
  uint32_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m512i both = _mm512_xor_epi64(load_avx512(packets + i), load_avx512(slots + i));
    difference = _mm512_or_epi64(difference, both);
  }
  if (i < count) {
    const __mmask8 mask = rest_of(count);
    const __m512i both =
        _mm512_xor_epi64(load_avx512(packets + i, mask), load_avx512(slots + i, mask));
    difference = _mm512_or_epi64(difference, both);
  }
  return _mm512_test_epi64_mask(difference, _mm512_set1_epi64(0xffffffff)) == 0;
}

constexpr BurstFunctions kVariants[] = {{take_avx512, put_avx512, same_buffers_avx512, "avx512"},
                                        {take_avx2, put_avx2, same_buffers_avx2, "avx2"},
                                        kPortable};

std::span<const BurstFunctions> supported() {
  __builtin_cpu_init();
  const std::span all(kVariants);
  if (__builtin_cpu_supports("avx512f")) return all;
  return all.subspan(__builtin_cpu_supports("avx2") ? 1 : 2);
}

#else

constexpr BurstFunctions kVariants[] = {kPortable};

std::span<const BurstFunctions> supported() {
  return kVariants;
}

#endif

}  // namespace

std::span<const BurstFunctions> burst_variants() {
  static const std::span<const BurstFunctions> variants = supported();
  return variants;
}

}  // namespace headrace::shm
