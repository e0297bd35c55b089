// SPDX-License-Identifier: Apache-2.0
// Which vector instructions the data path uses: decided once, at run time.
//
// Everything is built for the baseline that DPDK asks for (SSE4.2 on x86-64) and portable. The few
// loops where wider vectors pay have variants for AVX2 and for AVX-512 in the same program:
// functions with the attribute HEADRACE_AVX2 or HEADRACE_AVX512, chosen through a function pointer
// or one branch per burst. So one binary serves every machine, and no header's inline function is
// compiled twice.
//
// The level avx2 is x86-64-v3 (Haswell, Zen 1 and later); avx512 needs what Ice Lake and Zen 4
// brought (byte permutation, multishift). Wide vectors for the loops as they are written gain
// nothing; the variants are other algorithms: a frame's headers as one register, a table's rules as
// its lanes, the packets of a burst as lanes of a gather.
//
// Thread safety: set_simd() before tables are made and packets run; all else at any time.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#if defined(__x86_64__)
/// For functions that may use AVX2. They must be called only where simd() says so.
#define HEADRACE_AVX2 __attribute__((target("avx2,bmi,bmi2,fma,movbe,lzcnt,popcnt")))
/// For functions that may use AVX-512, and AVX2 functions inline. They must be called only where
/// simd() says so.
#define HEADRACE_AVX512                                                               \
  __attribute__((                                                                     \
      target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx2,bmi,bmi2,fma,movbe," \
             "lzcnt,popcnt")))
/// Defined to 1 where both can be built.
#define HEADRACE_HAS_X86_VECTORS 1
#else
#define HEADRACE_HAS_X86_VECTORS 0
#endif

namespace headrace::match {

/// From the least to the most. A processor that has one has those before it.
enum class Simd : uint8_t { portable, avx2, avx512 };

/// The best that this processor offers, or less if set_simd() said so.
[[nodiscard]] Simd simd() noexcept;

/// What simd() is to say from now on, if the processor can; else it says what the processor can.
void set_simd(Simd most) noexcept;

/// All that this processor has, from portable on. Tests of variants run once for each.
[[nodiscard]] std::span<const Simd> simd_levels() noexcept;

/// "portable", "avx2", "avx512": as users write it.
[[nodiscard]] std::string_view name(Simd simd) noexcept;

/// The reverse of name(); nothing for another word.
[[nodiscard]] std::optional<Simd> simd_named(std::string_view word) noexcept;

}  // namespace headrace::match
