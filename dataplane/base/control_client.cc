// SPDX-License-Identifier: Apache-2.0
#include "base/control_client.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace headrace {

using nlohmann::json;

Result<ControlClient> ControlClient::connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return fail("{}: the path is too long", path);
  path.copy(address.sun_path, path.size());
  ControlClient client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (client.fd_ < 0 ||
      ::connect(client.fd_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return fail_as("unreachable", "{}: {}", path, std::strerror(errno));
  }
  return client;
}

ControlClient::ControlClient(ControlClient&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      next_id_(other.next_id_),
      received_(std::move(other.received_)) {}

ControlClient::~ControlClient() {
  if (fd_ >= 0) ::close(fd_);
}

Result<> ControlClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return fail_as("unreachable", "control socket: {}", std::strerror(errno));
    bytes.remove_prefix(static_cast<size_t>(sent));
  }
  return {};
}

Result<json> ControlClient::receive(std::chrono::milliseconds timeout) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point deadline = Clock::now() + timeout;
  while (true) {
    if (const size_t end = received_.find('\n'); end != std::string::npos) {
      json line = json::parse(received_.substr(0, end), nullptr, false);
      received_.erase(0, end + 1);
      if (line.is_discarded()) return fail_as("bad_json", "control socket: a line is not JSON");
      return line;
    }
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) return fail_as("timeout", "control socket: no reply");
    pollfd event{fd_, POLLIN, 0};
    if (::poll(&event, 1, static_cast<int>(left.count())) < 0 && errno != EINTR) {
      return fail_as("unreachable", "control socket: {}", std::strerror(errno));
    }
    if (event.revents == 0) continue;
    std::array<char, 16384> chunk;
    const ssize_t size = ::read(fd_, chunk.data(), chunk.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return fail_as("closed", "control socket: the server closed the connection");
    received_.append(chunk.data(), static_cast<size_t>(size));
  }
}

Result<json> ControlClient::call(const std::string& method, const json& params,
                                 std::chrono::milliseconds timeout) {
  const int id = next_id_++;
  const json request{{"id", id}, {"method", method}, {"params", params}};
  if (Result<> sent = send(request.dump() + '\n'); !sent) return tl::unexpected(sent.error());
  while (true) {
    Result<json> reply = receive(timeout);
    if (!reply) return reply;
    if (reply->value("id", json()) != id) continue;  // of an earlier call that timed out
    if (reply->contains("error")) {
      const json& error = (*reply)["error"];
      return tl::unexpected(Error{error.value("message", ""), error.value("code", "failed")});
    }
    return reply->value("result", json());
  }
}

}  // namespace headrace
