// SPDX-License-Identifier: Apache-2.0
#include "channel/shm_channel.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "channel/payload.h"
#include "shm/attach_client.h"
#include "shm/vnf_end.h"

namespace headrace::channel {
namespace {

using shm::Packet;
using shm::VnfEnd;

constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kPause = std::chrono::milliseconds(2);

/// The base of both ends: the port.
class PortEnd : public End {
 public:
  PortEnd(VnfEnd port, int connection) : port_(port), connection_(connection) {}
  PortEnd(const PortEnd&) = delete;
  PortEnd& operator=(const PortEnd&) = delete;
  ~PortEnd() override {
    port_.free_all();
    port_.block().user.store(0, std::memory_order_release);
    close(connection_);
  }
  /// Whether all buffers are in circulation.
  [[nodiscard]] virtual bool complete() const { return true; }

 protected:
  VnfEnd port_;
  int connection_;
};

/// Sends the buffers that came back, or, without a return link, newly allocated ones.
class ShmProducer final : public PortEnd {
 public:
  ShmProducer(VnfEnd port, int connection, const ShmOptions& options)
      : PortEnd(port, connection),
        direct_(options.direct),
        missing_(options.buffers),
        prepared_(port.n_buffers()) {}

  [[nodiscard]] bool complete() const override { return !direct_ || missing_ == 0; }

  PollResult poll(const Work& work) override {
    if (pending_ == 0) pending_ = direct_ ? circulating(work) : fill(work);
    const uint32_t sent = port_.tx(std::span(packets_).first(pending_));
    pending_ -= sent;
    std::copy_n(packets_.begin() + sent, pending_, packets_.begin());
    return {.packets = sent};
  }

 private:
  uint32_t circulating(const Work& work) {
    uint32_t count = port_.rx(packets_);
    if (count == 0 && missing_ > 0) {
      count = port_.alloc(std::span(packets_).first(std::min(kBurst, missing_)));
      missing_ -= count;
      write_headers(count);
    }
    fill(count, work);
    return count;
  }

  uint32_t fill(const Work& work) {
    const uint32_t count = port_.alloc(packets_);
    write_headers(count);
    fill(count, work);
    return count;
  }

  /// Writes the headers of buffers seen for the first time; they are kept for later packets.
  void write_headers(uint32_t count) {
    for (const Packet& packet : std::span(packets_).first(count)) {
      if (prepared_[packet.buffer] != 0) continue;
      write_header(port_.data(packet));
      prepared_[packet.buffer] = 1;
    }
  }

  void fill(uint32_t count, const Work& work) {
    const std::span<Packet> packets = std::span(packets_).first(count);
    // Stored only if changed: a vector load of the whole slot that follows a store to a part of it
    // would stall on store forwarding. Compared without a branch for each packet.
    uint32_t difference = 0;
    for (const Packet& packet : packets) difference |= packet.length ^ work.length;
    if (difference != 0) {
      for (Packet& packet : packets) packet.length = static_cast<uint16_t>(work.length);
    }
    if (!work.touch) return;
    for (const Packet& packet : packets) prefetch_to_write(port_.data(packet), work.length);
    for (const Packet& packet : packets) write_lines(port_.data(packet), work.length, ++word_);
  }

  bool direct_;
  uint32_t missing_;               ///< buffers yet to be put into circulation
  std::vector<uint8_t> prepared_;  ///< by buffer: its Ethernet header is written
  std::array<Packet, kBurst> packets_{};
  uint32_t pending_{0};
  uint64_t word_{0};
};

/// Returns the received buffers, or, without a return link, frees them.
class ShmConsumer final : public PortEnd {
 public:
  ShmConsumer(VnfEnd port, int connection, const ShmOptions& options)
      : PortEnd(port, connection), direct_(options.direct) {}

  PollResult poll(const Work& work) override {
    PollResult done;
    if (pending_ == 0) {
      pending_ = port_.rx(packets_);
      done.packets = pending_;
      if (work.touch) read(work, done);
    }
    if (!direct_) {
      port_.free(std::span<const Packet>(packets_).first(pending_));
      pending_ = 0;
      return done;
    }
    const uint32_t sent = port_.tx(std::span(packets_).first(pending_));
    pending_ -= sent;
    std::copy_n(packets_.begin() + sent, pending_, packets_.begin());
    return done;
  }

 private:
  void read(const Work& work, PollResult& done) {
    for (uint32_t i = 0; i < pending_; ++i) {
      prefetch_to_read(port_.data(packets_[i]), work.length);
    }
    for (uint32_t i = 0; i < pending_; ++i) {
      if (packets_[i].length != work.length) {
        ++done.foreign;
      } else if (!read_lines(port_.data(packets_[i]), work.length)) {
        ++done.corrupt;
      }
    }
    done.packets -= done.foreign;
  }

  bool direct_;
  std::array<Packet, kBurst> packets_{};
  uint32_t pending_{0};
};

std::unique_ptr<PortEnd> make_end(Role role, const VnfEnd& port, int connection,
                                  const ShmOptions& options) {
  port.block().user.store(static_cast<uint32_t>(getpid()), std::memory_order_release);
  if (role == Role::producer) return std::make_unique<ShmProducer>(port, connection, options);
  return std::make_unique<ShmConsumer>(port, connection, options);
}

/// Ports of a running switch.
class SwitchChannel final : public Channel {
 public:
  explicit SwitchChannel(ShmOptions options) : options_(std::move(options)) {}

  Result<std::unique_ptr<End>> open(Role role, uint32_t /*cpu*/) override {
    const std::string& name = role == Role::producer ? options_.producer : options_.consumer;
    shm::Attached attached;
    const int error = shm::request_port(options_.socket.c_str(), name.c_str(), attached);
    if (error != 0) return fail("port {} at {}: {}", name, options_.socket, std::strerror(-error));
    const std::span<uint8_t> memory = shm::map_region(attached.region);
    close(attached.region);
    VnfEnd port;
    if (memory.empty() || port.bind(memory, attached.port) != 0) {
      return fail("port {} at {}: the switch gave no region", name, options_.socket);
    }
    auto end = make_end(role, port, attached.connection, options_);
    if (options_.direct) return linked(std::move(end), port, name);
    return end;
  }

 private:
  /// Polls until the switch has made the link: a port switches over inside its own calls.
  Result<std::unique_ptr<End>> linked(std::unique_ptr<PortEnd> end, const VnfEnd& port,
                                      const std::string& name) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const shm::LinkWords& link = port.block().link;
    while (link.tx_now.load() == 0 || link.rx_now.load() == 0 || !end->complete()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return fail("port {} at {}: the switch made no direct link within 10 s", name,
                    options_.socket);
      }
      end->poll({});
      std::this_thread::sleep_for(kPause);
    }
    return end;
  }

  ShmOptions options_;
};

}  // namespace

Result<std::unique_ptr<Channel>> make_shm_channel(const ShmOptions& options) {
  constexpr uint32_t kRing = 1024;  // default slots of a group's rings
  if (options.buffers == 0 || options.buffers > kRing) {
    return fail("--buffers {}: 1 to {}", options.buffers, kRing);
  }
  if (options.socket.empty()) return fail("shm needs the --socket of a switch's group");
  return std::make_unique<SwitchChannel>(options);
}

}  // namespace headrace::channel
