// SPDX-License-Identifier: Apache-2.0
// For tests: a certificate authority and certificates that it signed, in a directory of its own.
#pragma once

#include <string>

#include "base/stream.h"

namespace headrace::test {

class Certificates {
 public:
  /// Makes a CA in a new directory. Aborts the test program if it cannot.
  Certificates();
  ~Certificates();
  Certificates(const Certificates&) = delete;
  Certificates& operator=(const Certificates&) = delete;

  /// A new key and a certificate that this CA signed.
  TlsFiles make(const std::string& name);
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  std::string directory_;
};

}  // namespace headrace::test
