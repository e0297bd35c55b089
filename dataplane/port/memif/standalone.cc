// SPDX-License-Identifier: Apache-2.0
#include "port/memif/standalone.h"

#include <charconv>
#include <chrono>
#include <map>
#include <string_view>

namespace headrace::port::memif {
namespace {

constexpr std::chrono::milliseconds kLookAgain{1};
constexpr std::string_view kDriver = "net_memif";

using Arguments = std::map<std::string, std::string, std::less<>>;

Result<Arguments> split(const std::string& devargs) {
  Arguments arguments;
  size_t begin = devargs.find(',');
  while (begin != std::string::npos) {
    const size_t end = devargs.find(',', begin + 1);
    const std::string argument = devargs.substr(begin + 1, end - begin - 1);
    const size_t equals = argument.find('=');
    if (equals == std::string::npos) return fail("'{}' is no key=value", argument);
    const std::string key = argument.substr(0, equals);
    if (!arguments.emplace(key, argument.substr(equals + 1)).second) {
      return fail("{} is there twice", key);
    }
    begin = end;
  }
  return arguments;
}

/// The number at `key`, which is taken out; `fallback` without one.
Result<uint32_t> take_number(Arguments& arguments, std::string_view key, uint32_t fallback,
                             uint32_t low, uint32_t high) {
  const auto found = arguments.find(key);
  if (found == arguments.end()) return fallback;
  const std::string text = std::move(found->second);
  arguments.erase(found);
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < low || number > high) {
    return fail("{}={}: must be a number from {} to {}", key, text, low, high);
  }
  return number;
}

std::string take_text(Arguments& arguments, std::string_view key, std::string fallback) {
  const auto found = arguments.find(key);
  if (found == arguments.end()) return fallback;
  std::string text = std::move(found->second);
  arguments.erase(found);
  return text;
}

}  // namespace

UseReclaimer::~UseReclaimer() {
  for (const Deferred& each : deferred_) each.function();
}

void UseReclaimer::defer(std::function<void()> function) {
  // After what the caller published; see Use.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  Seen seen{};
  for (size_t i = 0; i < seen.size(); ++i) {
    seen[i] = counts_[i].value.load(std::memory_order_acquire);
  }
  deferred_.push_back({seen, std::move(function)});
  if (deferred_.size() == 1) run_due();
}

bool UseReclaimer::over(const Seen& seen) const {
  for (size_t i = 0; i < seen.size(); ++i) {
    const bool within = (seen[i] & 1) != 0;
    if (within && counts_[i].value.load(std::memory_order_acquire) == seen[i]) return false;
  }
  return true;
}

void UseReclaimer::run_due() {
  timer_.expires_after(kLookAgain);
  // A time-out that is on its way already comes in spite of the timer's end.
  timer_.async_wait([this, alive = std::weak_ptr(alive_)](const asio::error_code& error) {
    if (error || alive.expired()) return;
    while (!deferred_.empty() && over(deferred_.front().seen)) {
      const auto function = std::move(deferred_.front().function);
      deferred_.pop_front();
      function();
    }
    if (!deferred_.empty()) run_due();
  });
}

Result<std::unique_ptr<Standalone>> Standalone::open(asio::io_context& io, EndpointConfig config) {
  std::unique_ptr<Standalone> standalone(new Standalone(io));
  auto endpoint = Endpoint::open(io, standalone->reclaimer_, std::move(config));
  if (!endpoint) return tl::unexpected(endpoint.error());
  standalone->endpoint_ = std::move(*endpoint);
  return standalone;
}

Result<std::optional<EndpointConfig>> read_net_memif(const std::string& devargs) {
  if (!devargs.starts_with(kDriver)) return std::nullopt;
  auto split_up = split(devargs);
  if (!split_up) return tl::unexpected(split_up.error());
  Arguments& arguments = *split_up;
  if (take_text(arguments, "socket-abstract", "yes") != "no") return std::nullopt;
  if (take_text(arguments, "zero-copy", "no") == "yes") return std::nullopt;
  EndpointConfig config{.name = devargs.substr(0, devargs.find(','))};
  config.socket = take_text(arguments, "socket", "/run/memif.sock");
  const std::string role = take_text(arguments, "role", "client");
  if (role != "server" && role != "client") return fail("role={}: is server or client", role);
  config.role = role == "server" ? Role::server : Role::client;
  config.secret = take_text(arguments, "secret", "");
  if (config.secret.size() >= kSecretSize) {
    return fail("secret: has more than {} characters", kSecretSize - 1);
  }
  const auto id = take_number(arguments, "id", 0, 0, UINT32_MAX);
  if (!id) return tl::unexpected(id.error());
  config.id = *id;
  const auto slots = take_number(arguments, "rsize", 10, 2, 14);
  if (!slots) return tl::unexpected(slots.error());
  config.log2_ring_size = *slots;
  const auto buffer = take_number(arguments, "bsize", 2048, 128, 65535);
  if (!buffer) return tl::unexpected(buffer.error());
  config.buffer_size = *buffer;
  if (!arguments.empty()) {
    return fail("{}: is none of id, role, socket, socket-abstract, zero-copy, secret, rsize, bsize",
                arguments.begin()->first);
  }
  return config;
}

}  // namespace headrace::port::memif
