// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: the fuzzer's octets choose a pipeline, changes of it and packets; the compiled
// pipeline must agree with the reference.
#include <cstdio>
#include <cstdlib>

#include "pipeline/testing/compare.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace headrace::pipeline::test;
  size_t at = 0;
  // Past the end of the input every choice is 0: the shortest of everything.
  const Choose choose = [&](uint64_t below) -> uint64_t {
    uint64_t value = 0;
    for (uint64_t range = 1; range < below && at < size; range <<= 8) {
      value = value << 8 | data[at++];
    }
    return below == 0 ? 0 : value % below;
  };
  const std::string difference = compare_once(choose, 40);
  if (!difference.empty()) {
    std::fprintf(stderr, "%s\n", difference.c_str());
    std::abort();
  }
  return 0;
}
