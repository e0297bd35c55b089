// SPDX-License-Identifier: Apache-2.0
// Asks for a cache line before it is used.
//
// To write means to own: a line that another core has is taken from it at once, by prefetchw.
// __builtin_prefetch(at, 1) is meant for it, but compiles to a plain prefetcht0 unless the target
// option -mprfchw is given; then each store waits for its line again, one after the other. All
// processors that run 64-bit code take the instruction, and those without it do nothing.
#pragma once

namespace headrace {

/// Asks for the line at `at`, to be read.
inline void prefetch_to_read(const void* at) {
  __builtin_prefetch(at, 0, 3);
}

/// Asks for the line at `at`, to be written.
inline void prefetch_to_write(const void* at) {
#if defined(__x86_64__)
  __asm__ volatile("prefetchw %0" : : "m"(*static_cast<const char*>(at)));
#else
  __builtin_prefetch(at, 1, 3);
#endif
}

}  // namespace headrace
