// SPDX-License-Identifier: Apache-2.0
#include "match/fields/simd.h"

#include <algorithm>
#include <array>
#include <atomic>

#if HEADRACE_HAS_X86_VECTORS
#include <cpuid.h>
#endif

namespace headrace::match {
namespace {

constexpr std::array kLevels = {Simd::portable, Simd::avx2, Simd::avx512};
constexpr std::array<std::string_view, kLevels.size()> kNames = {"portable", "avx2", "avx512"};

#if HEADRACE_HAS_X86_VECTORS
/// MOVBE and LZCNT, which compilers can't be asked for by name everywhere.
bool has_movbe_and_lzcnt() {
  constexpr unsigned kMovbe = 1u << 22;
  constexpr unsigned kLzcnt = 1u << 5;
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  if (__get_cpuid(1, &a, &b, &c, &d) == 0 || (c & kMovbe) == 0) return false;
  return __get_cpuid(0x80000001, &a, &b, &c, &d) != 0 && (c & kLzcnt) != 0;
}
#endif

Simd best() {
#if HEADRACE_HAS_X86_VECTORS
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma") &&
                    __builtin_cpu_supports("popcnt") && has_movbe_and_lzcnt();
  if (!avx2) return Simd::portable;
  // With AVX-512 VBMI come all the others of HEADRACE_AVX512.
  const bool avx512 = __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vl") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  return avx512 ? Simd::avx512 : Simd::avx2;
#else
  return Simd::portable;
#endif
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

std::span<const Simd> simd_levels() noexcept {
  return {kLevels.data(), static_cast<size_t>(best()) + 1};
}

std::string_view name(Simd simd) noexcept {
  return kNames[static_cast<size_t>(simd)];
}

std::optional<Simd> simd_named(std::string_view word) noexcept {
  const auto* found = std::find(kNames.begin(), kNames.end(), word);
  if (found == kNames.end()) return std::nullopt;
  return kLevels[static_cast<size_t>(found - kNames.begin())];
}

}  // namespace headrace::match
