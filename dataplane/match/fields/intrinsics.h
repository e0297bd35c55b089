// SPDX-License-Identifier: Apache-2.0
// The intrinsics of AVX2 and AVX-512. For source files of variants only: as gcc 12 takes the
// undefined operands of its own AVX-512 intrinsics for mistakes (bug 105593) wherever they are
// inlined, the warnings that it gives for them stay off to the end of the file.
#pragma once

#include "match/fields/simd.h"

#if HEADRACE_HAS_X86_VECTORS
#pragma GCC diagnostic ignored "-Wuninitialized"
#if !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#endif
