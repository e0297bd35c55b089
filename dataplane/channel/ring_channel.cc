// SPDX-License-Identifier: Apache-2.0
#include "channel/ring_channel.h"

#include <array>
#include <new>
#include <numeric>
#include <vector>

#include "channel/bare_ring.h"
#include "channel/payload.h"
#include "shm/region.h"

namespace headrace::channel {
namespace {

constexpr uint32_t kStride = 2048 + 128 + 64;  // as a Headrace port's buffers (shm/layout.h)
constexpr uint32_t kBegin = 128;

/// The contents of the shared memory; the buffers follow.
struct Shared {
  BareRing there;
  BareRing back;
};

uint8_t* packet_at(Shared& shared, uint64_t number) {
  return reinterpret_cast<uint8_t*>(&shared + 1) + number * kStride + kBegin;
}

class OneWayProducer final : public End {
 public:
  explicit OneWayProducer(Shared& shared) : ring_(shared.there) {
    std::iota(numbers_.begin(), numbers_.end(), 0);
  }
  PollResult poll(const Work& /*work*/) override {
    return {.packets = ring_.put(numbers_.data(), kBurst)};
  }

 private:
  BareProducer ring_;
  std::array<uint64_t, kBurst> numbers_{};
};

class OneWayConsumer final : public End {
 public:
  explicit OneWayConsumer(Shared& shared) : ring_(shared.there) {}
  PollResult poll(const Work& /*work*/) override {
    std::array<uint64_t, kBurst> numbers;
    return {.packets = ring_.take(numbers.data(), kBurst)};
  }

 private:
  BareConsumer ring_;
};

/// Sends the buffers that came back.
class Producer final : public End {
 public:
  Producer(Shared& shared, uint32_t buffers)
      : shared_(shared), there_(shared.there), back_(shared.back) {
    std::vector<uint64_t> all(buffers);
    std::iota(all.begin(), all.end(), 0);
    there_.put(all.data(), buffers);
  }
  PollResult poll(const Work& work) override {
    std::array<uint64_t, kBurst> numbers;
    const uint32_t count = back_.take(numbers.data(), kBurst);
    if (count == 0) return {};
    if (work.touch) {
      for (uint32_t i = 0; i < count; ++i) {
        prefetch_to_write(packet_at(shared_, numbers[i]), work.length);
      }
      for (uint32_t i = 0; i < count; ++i) {
        write_lines(packet_at(shared_, numbers[i]), work.length, ++word_);
      }
    }
    there_.put(numbers.data(), count);  // the ring has a slot for each buffer
    return {.packets = count};
  }

 private:
  Shared& shared_;
  BareProducer there_;
  BareConsumer back_;
  uint64_t word_{0};
};

class Consumer final : public End {
 public:
  explicit Consumer(Shared& shared) : shared_(shared), there_(shared.there), back_(shared.back) {}
  PollResult poll(const Work& work) override {
    std::array<uint64_t, kBurst> numbers;
    PollResult done{.packets = there_.take(numbers.data(), kBurst)};
    if (done.packets == 0) return done;
    if (work.touch) {
      for (uint32_t i = 0; i < done.packets; ++i) {
        prefetch_to_read(packet_at(shared_, numbers[i]), work.length);
      }
      for (uint32_t i = 0; i < done.packets; ++i) {
        if (!read_lines(packet_at(shared_, numbers[i]), work.length)) ++done.corrupt;
      }
    }
    back_.put(numbers.data(), done.packets);
    return done;
  }

 private:
  Shared& shared_;
  BareConsumer there_;
  BareProducer back_;
};

class RingChannel final : public Channel {
 public:
  RingChannel(const RingOptions& options, shm::Mapping memory)
      : options_(options),
        memory_(std::move(memory)),
        shared_(*new (memory_.octets().data()) Shared) {}

  Result<std::unique_ptr<End>> open(Role role, uint32_t /*cpu*/) override {
    if (options_.one_way) {
      if (role == Role::producer) return std::make_unique<OneWayProducer>(shared_);
      return std::make_unique<OneWayConsumer>(shared_);
    }
    if (role == Role::producer) return std::make_unique<Producer>(shared_, options_.buffers);
    return std::make_unique<Consumer>(shared_);
  }

 private:
  RingOptions options_;
  shm::Mapping memory_;
  Shared& shared_;
};

}  // namespace

Result<std::unique_ptr<Channel>> make_ring_channel(const RingOptions& options) {
  if (options.buffers == 0 || options.buffers > BareRing::kSlots) {
    return fail("--buffers {}: 1 to {}", options.buffers, BareRing::kSlots);
  }
  const size_t size = sizeof(Shared) + size_t{options.buffers} * kStride;
  auto memory = shm::Mapping::create("headrace-channel", size, true);
  if (!memory) return tl::unexpected(memory.error());
  return std::make_unique<RingChannel>(options, std::move(*memory));
}

}  // namespace headrace::channel
