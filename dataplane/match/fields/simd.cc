// SPDX-License-Identifier: Apache-2.0
#include "match/fields/simd.h"

#include <algorithm>
#include <atomic>

namespace headrace::match {
namespace {

Simd best() {
#if HEADRACE_HAS_AVX512
  __builtin_cpu_init();
  // With AVX-512 VBMI come all the others of HEADRACE_AVX512.
  if (__builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vl") &&
      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq")) {
    return Simd::avx512;
  }
#endif
  return Simd::portable;
}

std::atomic<Simd>& chosen() {
  static std::atomic<Simd> simd{best()};
  return simd;
}

}  // namespace

Simd simd() noexcept {
  return chosen().load(std::memory_order_relaxed);
}

void set_simd(Simd most) noexcept {
  chosen().store(std::min(most, best()), std::memory_order_relaxed);
}

std::string_view name(Simd simd) noexcept {
  return simd == Simd::avx512 ? "avx512" : "portable";
}

}  // namespace headrace::match
