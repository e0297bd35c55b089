// SPDX-License-Identifier: Apache-2.0
// A blocking client of the control protocol (control_server.h), for tools and tests.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"

namespace headrace {

class ControlClient {
 public:
  /// Connects to the socket at `path`; fails if it has no listener.
  static Result<ControlClient> connect(const std::string& path);

  /// Sends one request and waits for its reply. An error reply is an Error with its code; so is
  /// silence of `timeout` ("timeout"), after which the connection is of no more use.
  Result<nlohmann::json> call(const std::string& method,
                              const nlohmann::json& params = nlohmann::json::object(),
                              std::chrono::milliseconds timeout = std::chrono::seconds(30));

  /// Sends raw bytes, as they are; for tests of the protocol itself.
  Result<> send(std::string_view bytes);
  /// The next line that the server sends, parsed.
  Result<nlohmann::json> receive(std::chrono::milliseconds timeout = std::chrono::seconds(30));

  ControlClient(ControlClient&& other) noexcept;
  ControlClient& operator=(ControlClient&&) = delete;
  ~ControlClient();

 private:
  explicit ControlClient(int fd) : fd_(fd) {}

  int fd_;
  int next_id_{1};
  std::string received_;
};

}  // namespace headrace
