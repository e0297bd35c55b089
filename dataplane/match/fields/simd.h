// SPDX-License-Identifier: Apache-2.0
// Which vector instructions the data path uses: decided once, at run time.
//
// Everything is built for the baseline that DPDK asks for (SSE4.2 on x86-64) and portable. The few
// loops where wider vectors pay have a variant for AVX-512 in the same program: a function with the
// HEADRACE_AVX512 attribute, chosen through a function pointer or one branch per burst. So one
// binary serves every machine, and no header's inline function is compiled twice.
//
// The variant needs what Ice Lake and Zen 4 brought (byte permutation, multishift). Wide vectors
// for the loops as they are written gain nothing; the variants are other algorithms: a frame's
// headers as one register, a table's rules as its lanes, the packets of a burst as lanes of a
// gather.
//
// Thread safety: set_simd() before tables are made and packets run; all else at any time.
#pragma once

#include <cstdint>
#include <string_view>

#if defined(__x86_64__)
/// For functions that may use AVX-512. They must be called only where simd() says so.
#define HEADRACE_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi,bmi2,popcnt")))
#define HEADRACE_HAS_AVX512 1
#else
#define HEADRACE_HAS_AVX512 0
#endif

namespace headrace::match {

enum class Simd : uint8_t { portable, avx512 };

/// The best that this processor offers, or less if set_simd() said so.
[[nodiscard]] Simd simd() noexcept;

/// What simd() is to say from now on, if the processor can; else it says what the processor can.
void set_simd(Simd most) noexcept;

/// "portable", "avx512": as users write it.
[[nodiscard]] std::string_view name(Simd simd) noexcept;

}  // namespace headrace::match
