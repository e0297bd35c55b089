// SPDX-License-Identifier: Apache-2.0
// A fuzz target without libFuzzer: runs each file of the folders that are named through it, once.
//
// `make fuzz` links x_fuzz.cc with libFuzzer; every other build links it with this, so that the
// committed corpus (tests/corpus: what once went wrong, and inputs that reach far) is a test. Exits
// 1 if there is nothing to run; a target that finds a fault aborts.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void run(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> octets{std::istreambuf_iterator<char>(file), {}};
  // The last line that a failure leaves says which input it was.
  std::printf("%s\n", path.c_str());
  std::fflush(stdout);
  (void)LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(octets.data()), octets.size());
}

}  // namespace

int main(int count, char** folders) {
  size_t inputs = 0;
  for (int i = 1; i < count; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(folders[i], error)) {
      run(entry.path());
      ++inputs;
    }
    if (error) std::fprintf(stderr, "%s: %s\n", folders[i], error.message().c_str());
  }
  std::printf("%zu inputs\n", inputs);
  return inputs == 0 ? 1 : 0;
}
