// SPDX-License-Identifier: Apache-2.0
// The flow source: a DPDK plugin that turns a net_null device into a source of prepared frames.
//
// What and why. To compare switches, each must poll the very same source, in its own process, and
// the source must cost little and serve many flows. net_pcap holds one mbuf per packet for ever,
// which no peer's mempool allows for 500 000 flows. So this plugin is loaded (`-d
// libheadrace-flowsource.so`) by Headrace, OVS-DPDK, VPP or any DPDK example alike: for each
// net_null device that has a frames file it adds an RX callback (rte_eth_add_first_rx_callback, a
// public interface), which copies the file's frames, one after another and round and round, into
// the fresh mbufs that net_null hands out.
//
// Files. $HEADRACE_FLOW_DIR/<device name>.frames: a FramesHeader, then `count` frames of `length`
// bytes, each in a slot of `stride` bytes (a multiple of 64); if `lengths` is 1, frames have
// lengths of their own: `count` 16-bit numbers, host order, follow the slots.
// headrace/bench/peers/frames.py writes them. A file that is replaced (by rename) is served from
// then on, so traffic can change while a device runs; a count of 0 closes the source. A device
// without a file is left alone (a sink: `net_null_x,no-rx=1`). <device name>.<pid>.served counts,
// per queue, the frames handed to the poller (8 octets each, host order), so that a loss between
// source and sink can be told to the packet; after these kMaxQueues counts it has the frames of the
// schedule that were given up, per queue.
//
// Load. Without a rate every poll gets a full burst. With one, frames have times: `burst` at once,
// the bursts evenly spaced or, with `poisson`, by exponential gaps (a table of kGaps, the same in
// every run). A poll gets what is due by then. What the poller has left waiting for longer than
// kLateS is given up and counted, as a generator's unsent frames are. `spin` makes each frame cost
// its poller that many TSC cycles more: a fault of known size, to test a bench with.
//
// Threads. A detached thread looks for started devices and new files every 20 ms until the process
// ends (nothing in ethdev says "started" to a plugin). The callback runs on the thread that polls
// the queue; it reads its frames through one atomic pointer. Mapped files stay mapped: a poller may
// read them.
#include <fcntl.h>
#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

struct FramesHeader {
  std::array<char, 8> magic;
  uint32_t count;
  uint32_t length;
  uint32_t stride;
  uint32_t lengths;
  double pps;        ///< frames per second; 0: as many as are polled
  uint32_t burst;    ///< frames with one time; 0 is 1
  uint32_t poisson;  ///< not 0: exponential gaps between bursts
  uint32_t spin;     ///< TSC cycles that each frame costs besides
  std::array<uint8_t, 20> reserved;
};
static_assert(sizeof(FramesHeader) == 64);
constexpr std::array<char, 8> kMagic = {'H', 'R', 'F', 'R', 'A', 'M', 'E', 'S'};

constexpr size_t kGaps = 4096;
constexpr double kLateS = 0.01;  ///< as late_bound_us of headrace-traffic

/// When frames are due, in TSC cycles.
struct Schedule {
  double gap{0};  ///< mean, from one burst to the next; 0: no schedule
  uint32_t burst{1};
  double late{0};
  std::vector<float> gaps;  ///< in mean gaps, used in turn; one if they are even
};

/// A mapped frames file; mapped for the life of the process.
struct Frames {
  const uint8_t* first{nullptr};
  uint32_t count{0};
  uint32_t length{0};
  uint32_t stride{0};
  const uint16_t* lengths{nullptr};  ///< one per frame, or null: all have `length`
  uint32_t spin{0};
  Schedule schedule;
};

/// One RX queue's place in its frames; without frames its packets are left alone.
struct alignas(64) Cursor {
  std::atomic<const Frames*> frames{nullptr};
  uint64_t* served{nullptr};
  uint32_t next{0};
  bool hooked{false};
  // The schedule's state; the poller's own.
  const Frames* scheduled{nullptr};  ///< whose schedule it is
  uint64_t begin{0};                 ///< TSC
  double at{0};                      ///< of the next burst, cycles after `begin`
  uint32_t gap{0};                   ///< index
  uint32_t left{0};                  ///< of the burst at `at`
};

/// ethdev keeps a queue's callbacks when the device goes and its port number is used again, and
/// offers no way to remove them then. So each queue is hooked once, and only its cursor changes.
constexpr uint16_t kMaxQueues = 16;
std::array<std::array<Cursor, kMaxQueues>, RTE_MAX_ETHPORTS> g_cursors;

/// Whether the frames lie within the file's `size` octets after the header, each within its slot.
bool is_in_order(const FramesHeader& header, size_t size) {
  if (header.magic != kMagic || header.length > header.stride || header.stride % 64 != 0) {
    return false;
  }
  const size_t slots = size_t{header.count} * header.stride;
  if (header.lengths == 0) return size >= slots;
  if (size < slots + header.count * sizeof(uint16_t)) return false;
  const auto* end = reinterpret_cast<const uint8_t*>(&header + 1) + slots;
  const auto* lengths = reinterpret_cast<const uint16_t*>(end);
  return std::all_of(lengths, lengths + header.count,
                     [&](uint16_t length) { return length <= header.stride; });
}

/// The times of a file's frames.
Schedule schedule_of(const FramesHeader& header) {
  Schedule schedule;
  if (!(header.pps > 0)) return schedule;
  const auto hz = static_cast<double>(rte_get_tsc_hz());
  schedule.burst = std::max(header.burst, 1u);
  schedule.gap = hz / header.pps * schedule.burst;
  schedule.late = kLateS * hz;
  schedule.gaps.assign(header.poisson != 0 ? kGaps : 1, 1);
  if (header.poisson == 0) return schedule;
  // One value of each of kGaps equal parts of the distribution, shuffled: their mean is 1.
  double sum = 0;
  for (size_t i = 0; i < kGaps; ++i) {
    schedule.gaps[i] = static_cast<float>(-std::log((static_cast<double>(i) + 0.5) / kGaps));
    sum += schedule.gaps[i];
  }
  for (float& gap : schedule.gaps) gap = static_cast<float>(gap * kGaps / sum);
  std::shuffle(schedule.gaps.begin(), schedule.gaps.end(), std::mt19937(1));  // NOLINT(cert-msc51)
  return schedule;
}

/// A file's content in memory of its own. Large ones lie on huge pages where there are any: else a
/// walk through half a million frames would cost a TLB miss for every few of them.
void* load(int fd, size_t size) {
  void* base = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) return nullptr;
  madvise(base, size, MADV_HUGEPAGE);
  for (size_t done = 0; done < size;) {
    const ssize_t got =
        pread(fd, static_cast<uint8_t*>(base) + done, size - done, static_cast<off_t>(done));
    if (got <= 0) {
      munmap(base, size);
      return nullptr;
    }
    done += static_cast<size_t>(got);
  }
  return base;
}

/// Maps a frames file, once for each file: by device and inode. Null if it is none.
const Frames* map_frames(const std::string& path, const struct stat& status) {
  static std::map<std::pair<dev_t, ino_t>, Frames> mapped;
  const std::pair key{status.st_dev, status.st_ino};
  if (const auto found = mapped.find(key); found != mapped.end()) return &found->second;
  const auto size = static_cast<size_t>(status.st_size);
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* base = load(fd, size);
  // A page stays mapped: were the file gone, another could have its inode's number.
  const void* pin = mmap(nullptr, 1, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (base == nullptr || pin == MAP_FAILED) return nullptr;
  const auto* header = static_cast<const FramesHeader*>(base);
  if (size < sizeof(FramesHeader) || !is_in_order(*header, size - sizeof(FramesHeader))) {
    std::fprintf(stderr, "flow source: %s is not a frames file\n", path.c_str());
    munmap(base, size);
    return nullptr;
  }
  const auto* first = static_cast<const uint8_t*>(base) + sizeof(FramesHeader);
  const auto* lengths =
      reinterpret_cast<const uint16_t*>(first + size_t{header->count} * header->stride);
  return &mapped
              .emplace(key, Frames{first, header->count, header->length, header->stride,
                                   header->lengths != 0 ? lengths : nullptr, header->spin,
                                   schedule_of(*header)})
              .first->second;
}

/// Fills the fresh mbufs with the next frames, of one length or of mixed lengths.
template <bool kMixed>
uint16_t copy_frames(const Frames& frames, Cursor& cursor, rte_mbuf** packets, uint16_t count) {
  uint32_t next = cursor.next < frames.count ? cursor.next : 0;
  for (uint16_t i = 0; i < count; ++i) {
    const uint8_t* from = frames.first + size_t{next} * frames.stride;
    const uint32_t length = kMixed ? frames.lengths[next] : frames.length;
    rte_mbuf* packet = packets[i];
    auto* to = rte_pktmbuf_mtod(packet, uint8_t*);
    // Whole slots of 64 bytes: the mbuf's room is larger, and a fixed size needs no branches.
    const uint32_t octets = kMixed ? length : frames.stride;
    for (uint32_t at = 0; at < octets; at += 64) rte_mov64(to + at, from + at);
    packet->data_len = static_cast<uint16_t>(length);
    packet->pkt_len = length;
    if (++next == frames.count) next = 0;
  }
  cursor.next = next;
  *cursor.served += count;
  return count;
}

/// How many frames are due, `room` at most; the schedule goes on by them.
uint16_t take_due(const Frames& frames, Cursor& cursor, uint16_t room) {
  const Schedule& schedule = frames.schedule;
  const uint64_t now = rte_rdtsc();
  if (cursor.scheduled != &frames) {
    cursor.scheduled = &frames;
    cursor.begin = now;
    cursor.at = 0;
    cursor.gap = 0;
    cursor.left = schedule.burst;
  }
  const auto elapsed = static_cast<double>(now - cursor.begin);
  if (const double behind = elapsed - schedule.late - cursor.at; behind > 0) {
    const double bursts = std::floor(behind / schedule.gap) + 1;
    cursor.at += bursts * schedule.gap;
    cursor.served[kMaxQueues] += cursor.left + static_cast<uint64_t>(bursts - 1) * schedule.burst;
    cursor.left = schedule.burst;
  }
  uint16_t due = 0;
  while (due < room && cursor.at <= elapsed) {
    const auto taken =
        static_cast<uint16_t>(std::min<uint32_t>(cursor.left, static_cast<uint32_t>(room - due)));
    due = static_cast<uint16_t>(due + taken);
    cursor.left -= taken;
    if (cursor.left != 0) break;
    cursor.left = schedule.burst;
    cursor.at += schedule.gap * schedule.gaps[cursor.gap];
    if (++cursor.gap == schedule.gaps.size()) cursor.gap = 0;
  }
  return due;
}

/// The callback: fills the mbufs that the device hands out.
uint16_t fill(uint16_t /*port*/, uint16_t /*queue*/, rte_mbuf** packets, uint16_t count,
              uint16_t /*room*/, void* user) {
  auto& cursor = *static_cast<Cursor*>(user);
  const Frames* frames = cursor.frames.load(std::memory_order_acquire);
  if (frames == nullptr) return count;
  if (frames->count == 0) {
    rte_pktmbuf_free_bulk(packets, count);
    return 0;
  }
  if (frames->schedule.gap > 0) {
    const uint16_t due = take_due(*frames, cursor, count);
    rte_pktmbuf_free_bulk(packets + due, count - due);
    count = due;
    if (count == 0) return 0;
  }
  const uint16_t filled = frames->lengths != nullptr
                              ? copy_frames<true>(*frames, cursor, packets, count)
                              : copy_frames<false>(*frames, cursor, packets, count);
  if (frames->spin != 0) {
    const uint64_t until = rte_rdtsc() + uint64_t{frames->spin} * filled;
    while (rte_rdtsc() < until) rte_pause();
  }
  return filled;
}

/// The page of counters that others can read; it stays mapped.
uint64_t* map_served(const std::string& path) {
  const int fd = open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return nullptr;
  constexpr size_t size = 2 * kMaxQueues * sizeof(uint64_t);
  void* base = ftruncate(fd, size) == 0
                   ? mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0)
                   : MAP_FAILED;
  close(fd);
  return base == MAP_FAILED ? nullptr : static_cast<uint64_t*>(base);
}

/// Serves the frames on every queue of a started device; false to be asked again later.
bool attach(uint16_t port, const char* name, const std::string& directory, const Frames& frames) {
  rte_eth_link link{};
  rte_eth_dev_info info{};
  if (rte_eth_link_get_nowait(port, &link) != 0 || link.link_status == 0) return false;
  if (rte_eth_dev_info_get(port, &info) != 0 || info.nb_rx_queues == 0) return false;
  const uint16_t queues = std::min(info.nb_rx_queues, kMaxQueues);
  uint64_t* served = nullptr;
  if (g_cursors[port][0].served == nullptr) {
    served = map_served(directory + "/" + name + "." + std::to_string(getpid()) + ".served");
    if (served == nullptr) return true;
  }
  for (uint16_t queue = 0; queue < queues; ++queue) {
    Cursor& cursor = g_cursors[port][queue];
    if (cursor.served == nullptr) cursor.served = served + queue;
    cursor.frames.store(&frames, std::memory_order_release);
    if (!cursor.hooked) {
      cursor.hooked = rte_eth_add_first_rx_callback(port, queue, fill, &cursor) != nullptr;
    }
  }
  std::fprintf(stderr, "flow source: %s serves %u frames of %u bytes on %u queues\n", name,
               frames.count, frames.length, queues);
  return true;
}

/// What a port number was last seen to be: a device and the file served on it.
struct Seen {
  std::string name;
  ino_t file{0};
};

void look_at(uint16_t port, const std::string& directory, Seen& seen) {
  std::array<char, RTE_ETH_NAME_MAX_LEN> name{};
  if (rte_eth_dev_is_valid_port(port) != 0) rte_eth_dev_get_name_by_port(port, name.data());
  if (seen.name != name.data()) {
    for (Cursor& cursor : g_cursors[port]) {
      cursor.frames.store(nullptr, std::memory_order_release);
      cursor.served = nullptr;
    }
    seen = {name.data(), 0};
  }
  if (!seen.name.starts_with("net_null")) return;
  const std::string path = directory + "/" + seen.name + ".frames";
  struct stat status {};
  if (stat(path.c_str(), &status) != 0 || status.st_ino == seen.file) return;
  const Frames* frames = map_frames(path, status);
  if (frames == nullptr || attach(port, name.data(), directory, *frames)) seen.file = status.st_ino;
}

void watch(const char* directory) {
  std::array<Seen, RTE_MAX_ETHPORTS> seen;
  for (;;) {
    for (uint16_t port = 0; port < RTE_MAX_ETHPORTS; ++port) look_at(port, directory, seen[port]);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

__attribute__((constructor)) void start() {
  const char* directory = std::getenv("HEADRACE_FLOW_DIR");
  if (directory == nullptr) return;
  std::thread(watch, directory).detach();
}

}  // namespace
