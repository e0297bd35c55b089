// SPDX-License-Identifier: Apache-2.0
#include "port/vhost/packed_rings.h"

#include <gtest/gtest.h>
#include <rte_vhost.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "port/vhost/test_front_end.h"

namespace headrace::port::vhost {
namespace {

constexpr uint16_t kToGuest = 0;
constexpr uint16_t kFromGuest = 1;
constexpr uint16_t kSize = 16;
constexpr uint16_t kDescriptor = 16;
constexpr uint32_t kBuffer = 2048;
constexpr uint16_t kFrame = 60;
constexpr size_t kNetHeader = 12;
constexpr uint16_t kWrite = 1 << 1;
constexpr uint16_t kAvailable = 1 << 7;
constexpr uint16_t kUsed = 1 << 15;
constexpr uint16_t kWrap = 1 << 15;
enum EventFlags : uint16_t { kAlways, kNever, kAtDescriptor };

/// A guest with packed rings, and what a worker does for it.
class Guest {
 public:
  explicit Guest(uint64_t features = 0) : front_(kPacked | features, kSize) {
    require(front_.finish(kSetOwner, {}));
    while (!the_switch().device->look()) ::usleep(1000);
    for (vid_ = 0; rte_vhost_get_vring_num(vid_) == 0; ++vid_) {
    }
  }
  ~Guest() {
    const std::string gone = "disconnected";
    front_.hang_up();
    while (the_switch().device->status()["status"] != gone || rte_vhost_get_vring_num(vid_) != 0) {
      ::usleep(1000);
    }
  }
  Guest(const Guest&) = delete;
  Guest& operator=(const Guest&) = delete;

  [[nodiscard]] const FrontEnd& front() const { return front_; }
  [[nodiscard]] int vid() const { return vid_; }

  /// Makes buffers available in the next `count` places of the ring.
  void offer(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
      const uint64_t address = (1 << 17) + uint64_t{next_} * kBuffer;
      const auto flags = static_cast<uint16_t>(kWrite | (wrap_ ? kAvailable : kUsed));
      std::array<uint8_t, kDescriptor> descriptor{};
      std::memcpy(&descriptor[0], &address, 8);
      std::memcpy(&descriptor[8], &kBuffer, 4);
      std::memcpy(&descriptor[12], &next_, 2);
      std::memcpy(&descriptor[14], &flags, 2);
      front_.write(size_t{next_} * kDescriptor, descriptor);
      if (++next_ == kSize) {
        next_ = 0;
        wrap_ = !wrap_;
      }
    }
  }
  /// When it wants to be kicked: for kAtDescriptor, at that one in the lap that it is in.
  void ask(EventFlags flags, uint16_t descriptor = 0) const {
    const auto at = static_cast<uint16_t>(descriptor | (wrap_ ? kWrap : 0));
    front_.write(kRings[1], FrontEnd::words<uint16_t>({at, flags}));
  }
  /// The first word of the next frame that it was sent, whose buffer it offers again; 0: none.
  uint32_t take() {
    std::array<uint8_t, kDescriptor> descriptor;
    front_.read(size_t{taken_} * kDescriptor, descriptor);
    uint16_t flags = 0;
    std::memcpy(&flags, &descriptor[14], 2);
    if (((flags & kAvailable) != 0) != taken_wrap_ || ((flags & kUsed) != 0) != taken_wrap_) {
      return 0;
    }
    std::array<uint8_t, sizeof(uint32_t)> begin;
    front_.read((1 << 17) + size_t{taken_} * kBuffer + kNetHeader, begin);
    uint32_t word = 0;
    std::memcpy(&word, begin.data(), sizeof word);
    if (++taken_ == kSize) {
      taken_ = 0;
      taken_wrap_ = !taken_wrap_;
    }
    offer(1);
    return word;
  }
  /// How many of `count` frames a worker could send, and how many of those it sent by itself.
  std::pair<unsigned, uint64_t> send(unsigned count) const {
    TestSwitch& sw = the_switch();
    PackedRings& rings = sw.data->packed_rings();
    const std::lock_guard lock(sw.working);
    std::array<rte_mbuf*, kSize> burst;
    require(rte_pktmbuf_alloc_bulk(sw.pool.get(), burst.data(), count) == 0);
    for (unsigned i = 0; i < count; ++i) {
      std::memset(rte_pktmbuf_append(burst[i], kFrame), 0x45, kFrame);
    }
    const uint64_t before = rings.sent_here();
    const uint16_t sent = rings.enqueue(vid_, kToGuest, {burst.data(), count});
    rte_pktmbuf_free_bulk(burst.data(), count);
    return {sent, rings.sent_here() - before};
  }

 private:
  FrontEnd front_;
  int vid_{0};
  uint16_t next_{0};
  bool wrap_{true};
  uint16_t taken_{0};
  bool taken_wrap_{true};
};

/// Sends `frames` frames by bursts of up to 7, each with a word that no other has, until all are
/// sent.
void send_words(int vid, uint32_t first, uint32_t frames) {
  TestSwitch& sw = the_switch();
  std::array<rte_mbuf*, 7> burst;
  for (uint32_t sent = 0; sent < frames;) {
    const auto count = std::min<uint32_t>(1 + sent % burst.size(), frames - sent);
    require(rte_pktmbuf_alloc_bulk(sw.pool.get(), burst.data(), count) == 0);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t word = first + sent + i;
      std::memcpy(rte_pktmbuf_append(burst[i], kFrame), &word, sizeof word);
    }
    const uint16_t taken = sw.data->packed_rings().enqueue(vid, kToGuest, {burst.data(), count});
    rte_pktmbuf_free_bulk(burst.data(), count);
    sent += taken;
    if (taken == 0) std::this_thread::yield();
  }
}

TEST(PackedRings, ABurstIsSentWithoutTheLibrary) {
  Guest guest;
  guest.offer(8);
  EXPECT_EQ(guest.send(5), std::make_pair(5u, uint64_t{5}));
  EXPECT_EQ(guest.front().kicks(), 1u);
  guest.ask(kNever);
  EXPECT_EQ(guest.send(5), std::make_pair(3u, uint64_t{3}));
  EXPECT_EQ(guest.front().kicks(), 0u);
}

TEST(PackedRings, TheLibraryIsAskedForWhatIsThere) {
  constexpr size_t kMost = 32;
  Guest guest;
  PackedRings& rings = the_switch().data->packed_rings();
  const auto asked = [&] { return rings.to_dequeue(guest.vid(), kFromGuest, kMost); };
  size_t idle = 0;
  for (int polls = 0; polls < 1000; ++polls) idle += asked();
  EXPECT_GT(idle, 0u);
  EXPECT_LT(idle, 1000u);
  for (uint16_t sent = 0; sent < 3; ++sent) {
    const std::array<uint16_t, 2> end{sent, kAvailable};
    std::array<uint8_t, kDescriptor> descriptor{};
    std::memcpy(&descriptor[12], end.data(), sizeof end);
    guest.front().write(kVringMemory + size_t{sent} * kDescriptor, descriptor);
    EXPECT_EQ(asked(), sent + 2u);
  }
  EXPECT_EQ(rings.to_dequeue(guest.vid(), kFromGuest, 2), 2u);
  // Of another device nothing is known.
  EXPECT_EQ(rings.to_dequeue(guest.vid() + 1, kFromGuest, kMost), kMost);
}

TEST(PackedRings, WorkersAndMessagesTakeTurns) {
  constexpr uint32_t kFrames = 2000;
  constexpr uint32_t kMessageEvery = 20;
  constexpr std::array<uint32_t, 2> kFirst{1, 1 << 20};
  Guest guest;
  guest.offer(kSize);
  std::vector<std::thread> workers;
  for (const uint32_t first : kFirst) {
    workers.emplace_back(send_words, guest.vid(), first, kFrames);
  }
  // Each worker's frames come once, in their order.
  std::array<uint32_t, 2> next = kFirst;
  for (uint32_t taken = 0; taken < kFirst.size() * kFrames;) {
    const uint32_t word = guest.take();
    if (word == 0) {
      std::this_thread::yield();
      continue;
    }
    uint32_t& expected = next[word < kFirst[1] ? 0 : 1];
    ASSERT_EQ(word, expected);
    ++expected;
    if (++taken % kMessageEvery != 0) continue;
    ASSERT_TRUE(guest.front().finish(kSetOwner, {}));
  }
  for (std::thread& worker : workers) worker.join();
}

TEST(PackedRings, AGuestThatPolledARoundIsKickedAtItsDescriptor) {
  Guest guest(kEventIndex);
  guest.offer(kSize);
  guest.ask(kAtDescriptor, 0);
  ASSERT_EQ(guest.send(1), std::make_pair(1u, uint64_t{1}));
  EXPECT_EQ(guest.front().kicks(), 1u);
  // It polls for the rest of the round, and then waits for the first descriptor of the next one.
  guest.ask(kNever);
  ASSERT_EQ(guest.send(kSize - 1), std::make_pair(kSize - 1u, uint64_t{kSize - 1}));
  EXPECT_EQ(guest.front().kicks(), 0u);
  guest.offer(4);
  guest.ask(kAtDescriptor, 0);
  ASSERT_EQ(guest.send(4), std::make_pair(4u, uint64_t{4}));
  EXPECT_EQ(guest.front().kicks(), 1u);
}

TEST(PackedRings, ARingThatIsNotWhollyTheGuestsOrNotAlignedIsNotUsed) {
  Guest guest;
  const PackedRings& rings = the_switch().data->packed_rings();
  EXPECT_TRUE(rings.accesses(kToGuest));
  const size_t last = kMemory - kSize / 2 * kDescriptor;
  ASSERT_TRUE(guest.front().finish(kSetVringAddr, FrontEnd::address_of(kToGuest, last)));
  EXPECT_FALSE(rings.accesses(kToGuest));
  const size_t odd = kDescriptor + 1;
  ASSERT_TRUE(guest.front().finish(kSetVringAddr, FrontEnd::address_of(kToGuest, odd)));
  EXPECT_FALSE(rings.accesses(kToGuest));
  ASSERT_TRUE(guest.front().finish(kSetVringAddr, FrontEnd::address_of(kToGuest, 0)));
  EXPECT_TRUE(rings.accesses(kToGuest));
}

TEST(PackedRings, ASizeThatARingCannotHaveDoesNotReachTheLibrary) {
  Guest guest;
  const auto size_of = [&guest](uint16_t vring) -> unsigned {
    rte_vhost_vring found{};
    return rte_vhost_get_vhost_vring(guest.vid(), vring, &found) == 0 ? found.size : 0;
  };
  // That of a ring in use, and one of none.
  for (const uint32_t size : {kSize * 2u, 0u, 65536u}) {
    ASSERT_TRUE(guest.front().finish(kSetVringNum, FrontEnd::words<uint32_t>({kToGuest, size})));
    EXPECT_EQ(size_of(kToGuest), kSize) << size;
  }
  for (const uint32_t size : {100u, 0u}) {
    ASSERT_TRUE(guest.front().finish(kSetVringNum, FrontEnd::words<uint32_t>({2, size})));
    EXPECT_EQ(size_of(2), 100u) << size;
  }
}

TEST(PackedRings, APositionBeyondTheRingBecomesItsBegin) {
  Guest guest;
  ASSERT_TRUE(guest.front().finish(kSetVringBase, FrontEnd::words<uint32_t>({kToGuest, 0x7fff})));
  uint16_t next = 0;
  uint16_t used = 0;
  ASSERT_EQ(rte_vhost_get_vring_base(guest.vid(), kToGuest, &next, &used), 0);
  EXPECT_EQ(next, kWrap);
  EXPECT_EQ(used, kWrap);
}

}  // namespace
}  // namespace headrace::port::vhost
