// SPDX-License-Identifier: Apache-2.0
// Where workers find the program of an LSI, which is all that they see of an LSI.
#pragma once

#include <atomic>

namespace headrace::pipeline {

struct LsiProgram;

/// The control thread publishes programs, workers read them (see program.h for the contract).
class PublishedProgram {
 public:
  /// The program at present; whole until the worker's next quiescent state.
  [[nodiscard]] const LsiProgram& program() const noexcept {
    return *program_.load(std::memory_order_acquire);
  }

 protected:
  PublishedProgram() = default;
  ~PublishedProgram() = default;
  PublishedProgram(const PublishedProgram&) = delete;
  PublishedProgram& operator=(const PublishedProgram&) = delete;

  std::atomic<const LsiProgram*> program_{nullptr};
};

}  // namespace headrace::pipeline
