// SPDX-License-Identifier: Apache-2.0
// A region of shared memory, created by the switch.
//
// The switch creates a region for a trust group, lays it out (layout.h) and stores offsets and
// sizes here, in its own memory, where VNFs cannot change them. The file is sealed against
// resizing: a peer that truncated it would make the switch's next access fault (SIGBUS).
//
// Threads: created and destroyed on the control thread; everything else is const.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "shm/layout.h"

namespace headrace::shm {

/// A mapped file, unmapped and closed on destruction.
class Mapping {
 public:
  Mapping() = default;
  ~Mapping();
  Mapping(Mapping&& other) noexcept { *this = std::move(other); }
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// An anonymous, sealed file of `size` octets (rounded up to whole pages): of huge pages if
  /// requested and available, otherwise of normal pages; see uses_hugepages().
  static Result<Mapping> create(const std::string& name, size_t size, bool hugepages);
  /// Maps a file received from a peer; takes ownership of `fd`.
  static Result<Mapping> open(int fd);

  [[nodiscard]] std::span<uint8_t> octets() const { return octets_; }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] bool uses_hugepages() const { return hugepages_; }

 private:
  int fd_{-1};
  std::span<uint8_t> octets_;
  bool hugepages_{false};
};

struct RegionConfig {
  std::string name;
  uint32_t n_ports{8};
  uint32_t n_buffers{8192};
  uint32_t buffer_room{2048 + kHeadroom};  ///< octets of a packet and its headroom
  uint32_t ring_capacity{1024};            ///< a power of two
  bool hugepages{true};
  bool power_of_two{
      false};  ///< round the file's size up, as a PCI BAR requires (ivshmem); the end stays unused
};

class Region {
 public:
  /// Creates and lays out a region; the error says what is wrong in `config`, or is the kernel's.
  static Result<Region> create(const RegionConfig& config);

  [[nodiscard]] const RegionConfig& config() const { return config_; }
  [[nodiscard]] const Mapping& mapping() const { return mapping_; }
  [[nodiscard]] uint32_t pool_capacity() const { return pool_capacity_; }
  [[nodiscard]] uint32_t buffer_stride() const { return stride_; }

  /// `port` and `buffer` are below n_ports and n_buffers.
  [[nodiscard]] PortBlock& port(uint32_t port) const;
  [[nodiscard]] uint8_t* octets(uint32_t buffer) const;
  [[nodiscard]] std::span<uint8_t> held(uint32_t port) const;

  /// Sets a port's name, shorter than kNameSize; "" removes it. Any thread.
  void name_port(uint32_t port, std::string_view name);
  /// Writes the header, the ports' names and the offsets of their rings again, in case VNFs have
  /// overwritten them. VNFs read these only when they attach. Any thread.
  void restore();

  /// The rings' addresses, computed from the switch's own memory.
  [[nodiscard]] void* to_vnf(uint32_t port) const { return ring(port, 0); }
  [[nodiscard]] void* from_vnf(uint32_t port) const { return ring(port, 1); }
  [[nodiscard]] void* direct(uint32_t port) const { return ring(port, 2); }
  [[nodiscard]] void* fill(uint32_t port) const;
  [[nodiscard]] void* completion(uint32_t port) const;

 private:
  [[nodiscard]] void* ring(uint32_t port, uint32_t which) const;
  [[nodiscard]] uint64_t port_rings_at(uint32_t port) const;
  void lay_out();
  void write_name(uint32_t port);
  void write_places(uint32_t port);

  /// A name in words that may be read and written concurrently: the last writer also restores it.
  using Name = std::array<std::atomic<uint64_t>, kNameSize / sizeof(uint64_t)>;

  RegionConfig config_;
  Mapping mapping_;
  std::unique_ptr<std::array<Name, kMaxPorts>> names_;
  uint32_t pool_capacity_{0};
  uint32_t stride_{0};
  uint64_t rings_at_{0};
  uint64_t rings_of_port_{0};
  uint64_t held_at_{0};
  uint64_t buffers_at_{0};
};

}  // namespace headrace::shm
