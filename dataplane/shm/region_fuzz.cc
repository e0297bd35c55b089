// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: writes garbage into a region, direct rings and link words included, while two
// correct VNFs use it and the switch runs its rounds. Whatever is written, the switch must accept
// only packets that are inside their buffers and owned by the VNFs, must not block, and must
// recover all buffers when the VNFs have exited.
//
// The input is a list of steps of 8 octets: what, where, and the number to write there.
#include <sys/types.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "shm/direct_link.h"
#include "shm/region.h"
#include "shm/switch_end.h"
#include "shm/vnf_end.h"

namespace headrace::shm {
namespace {

constexpr uint32_t kPorts = 3;
constexpr uint32_t kBuffers = 256;
constexpr uint32_t kA = 0;
constexpr uint32_t kB = 1;

void check(bool right) {
  if (!right) std::abort();
}

/// Aborts if a buffer is returned twice or taken while it is in use.
class CheckedPool final : public BufferPool {
 public:
  CheckedPool() : free_(kBuffers), is_free_(kBuffers, true) {
    std::iota(free_.begin(), free_.end(), 0);
  }
  uint32_t take(std::span<uint32_t> buffers) override {
    uint32_t count = 0;
    for (; count < buffers.size() && !free_.empty(); ++count) {
      buffers[count] = free_.back();
      is_free_[free_.back()] = false;
      free_.pop_back();
    }
    return count;
  }
  void give(std::span<const uint32_t> buffers) override {
    for (const uint32_t buffer : buffers) {
      check(buffer < kBuffers && !is_free_[buffer]);
      is_free_[buffer] = true;
      free_.push_back(buffer);
    }
  }
  [[nodiscard]] size_t size() const { return free_.size(); }

 private:
  std::vector<uint32_t> free_;
  std::vector<bool> is_free_;
};

struct Step {
  uint8_t what;
  uint8_t port;
  uint16_t where;
  uint32_t number;
};
static_assert(sizeof(Step) == 8);

class FuzzedRegion {
 public:
  FuzzedRegion()
      : region_(*Region::create({.name = "fuzz",
                                 .n_ports = kPorts,
                                 .n_buffers = kBuffers,
                                 .buffer_room = 256,
                                 .ring_capacity = 64,
                                 .hugepages = false})),
        ends_(region_, pool_),
        links_(ends_),
        mapping_(*Mapping::open(dup(region_.mapping().fd()))) {
    for (uint32_t port = 0; port < kPorts; ++port) {
      bound_[port] = vnf_[port].bind(mapping_.octets(), port) == 0;
    }
  }

  void run(const Step& step) {
    const uint32_t port = step.port % kPorts;
    switch (step.what % 8) {
      case 0:  // anywhere before the buffers: blocks, rings, marks
        write(step.where * uint64_t{4} % region_size(), step.number);
        break;
      case 1:
        write_words(&region_.port(port).link, sizeof(LinkWords), step);
        break;
      case 2:
        write_words(region_.direct(port), packet_ring_octets(64), step);
        break;
      case 3:
        write_words(step.number % 2 == 0 ? region_.from_vnf(port) : region_.completion(port),
                    sizeof(RingHeader), step);
        break;
      case 4:
        write_words(region_.from_vnf(port), packet_ring_octets(64), step);
        break;
      case 5:
        links_.want(kA, step.number % 2 == 0 ? std::optional(kB) : std::nullopt);
        break;
      case 6:
        run_vnf(port, step.number % 33);
        break;
      case 7:
        if (step.number % 4 == 0) detach_vnf(port);
        break;
    }
    round();
  }

  void finish() {
    links_.drop_all();
    ends_.reclaim_all();
    check(pool_.size() == kBuffers);
  }

 private:
  [[nodiscard]] uint64_t region_size() const {
    return static_cast<uint64_t>(region_.octets(0) - region_.mapping().octets().data());
  }
  void write(uint64_t at, uint32_t number) {
    std::memcpy(region_.mapping().octets().data() + at, &number, sizeof number);
  }
  void write_words(void* at, uint64_t size, const Step& step) {
    std::memcpy(static_cast<uint8_t*>(at) + step.where * uint64_t{4} % (size / 4 * 4), &step.number,
                sizeof step.number);
  }

  /// The calls of a correct VNF; its work is bounded, since positions may be garbage.
  void run_vnf(uint32_t port, uint32_t count) {
    std::array<Packet, 32> packets{};
    VnfEnd& end = vnf_[port];
    if (!bound_[port]) return;
    const uint32_t received = end.rx(packets);
    for (const Packet& packet : std::span(packets).first(received)) {
      check(packet.buffer < kBuffers);
      check(uint32_t{packet.begin} + packet.length <= region_.buffer_stride());
    }
    // In order, reversed, or kept beyond the next reception.
    if (count % 4 == 1) std::reverse(packets.begin(), packets.begin() + received);
    if (count % 4 == 2) {
      std::array<Packet, 4> more{};
      const uint32_t next = end.rx(more);
      end.free(std::span<const Packet>(more).first(next));
    }
    end.free(std::span<const Packet>(packets).first(received));
    const uint32_t taken = end.alloc(std::span(packets).first(std::min(count, 32u)));
    for (uint32_t i = 0; i < taken; ++i) packets[i].length = 60;
    const std::span<const Packet> made = std::span(packets).first(taken);
    end.free(made.subspan(end.tx(made)));
  }

  /// The VNF of a port exits; the next one attaches when the switch allows it.
  void detach_vnf(uint32_t port) {
    const uint64_t bit = uint64_t{1} << port;
    const bool linked = !links_.detach(port);
    ends_.reclaim_ports(bit, linked ? bit : 0);
    if (linked) links_.attach(port);
    vnf_[port] = VnfEnd();
    bound_[port] = vnf_[port].bind(mapping_.octets(), port) == 0;
  }

  void round() {
    links_.step_abandoned();
    const DirectTraffic traffic = links_.take_traffic(kB);
    check(traffic.octets <= traffic.packets * region_.buffer_stride());
    for (uint32_t port = 0; port < kPorts; ++port) {
      ends_.refill(port, 16);
      if (!links_.step(port)) continue;
      std::array<Packet, 32> sent{};
      const uint32_t count = ends_.receive(port, sent);
      links_.polled(port, count, count == sent.size());
      for (uint32_t i = 0; i < count; ++i) {
        check(sent[i].buffer < kBuffers);
        check(sent[i].length > 0);
        check(uint32_t{sent[i].begin} + sent[i].length <= region_.buffer_stride());
        if (ends_.send(port == kA ? kB : kA, {&sent[i], 1}) == 0) pool_.give({&sent[i].buffer, 1});
      }
    }
  }

  Region region_;
  CheckedPool pool_;
  SwitchEnd ends_;
  DirectLinks links_;
  Mapping mapping_;
  std::array<VnfEnd, kPorts> vnf_;
  std::array<bool, kPorts> bound_{};
};

}  // namespace
}  // namespace headrace::shm

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headrace::shm::FuzzedRegion live;
  for (size_t at = 0; at + sizeof(headrace::shm::Step) <= size && at < 4096; at += 8) {
    headrace::shm::Step step;
    std::memcpy(&step, data + at, sizeof step);
    live.run(step);
  }
  live.finish();
  return 0;
}
