// SPDX-License-Identifier: Apache-2.0
// The mappings of a NAPT between inside and public endpoints.
//
// Mappings are endpoint-independent (RFC 4787, REQ-1): one per inside address, port and protocol,
// whatever its destination. An inside address uses one public address (REQ-2, "paired"). Public
// ports are assigned in random order (RFC 6056); released ones go to the end of the queue, so that
// a port isn't reused soon.
//
// Thread safety: none; used by the worker only. Nothing allocates after make().
#pragma once

#include <rte_hash.h>

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "vnf/net/address.h"

namespace headrace::vnf {

/// The protocols that have ports, and ICMP queries with their identifiers.
enum class NatProto : uint8_t { tcp, udp, icmp };
inline constexpr size_t kNatProtos = 3;

struct NatEndpoint {
  Ipv4Address address{0};
  uint16_t port{0};
  NatProto proto{NatProto::udp};
  bool operator==(const NatEndpoint&) const = default;
};

struct NatMapping {
  enum class State : uint8_t { free, open, established, closing };
  State state{State::free};  ///< TCP goes open -> established -> closing; others stay open
  NatEndpoint inside;
  NatEndpoint outside;
  uint64_t last_used{0};  ///< TSC
};

class NatTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Options {
    std::vector<Ipv4Address> addresses;
    uint16_t first_port{1024};
    uint16_t last_port{65535};
    uint32_t capacity{65536};  ///< mappings
  };

  static Result<std::unique_ptr<NatTable>> make(const Options& options);

  /// Why add() failed.
  enum class Failure : uint8_t { table_full, ports_exhausted };

  [[nodiscard]] uint32_t find_inside(const NatEndpoint& inside) const noexcept;
  [[nodiscard]] uint32_t find_outside(const NatEndpoint& outside) const noexcept;
  /// Maps a new inside endpoint and returns its index; on failure kNone, with the reason in
  /// `failure`.
  uint32_t add(const NatEndpoint& inside, uint64_t now, Failure& failure) noexcept;
  /// Adds a mapping of another table with its public endpoint. False if the table is full or the
  /// public address or port isn't configured in this table.
  bool adopt(const NatMapping& mapping) noexcept;
  void remove(uint32_t index) noexcept;

  NatMapping& operator[](uint32_t index) noexcept { return mappings_[index]; }
  /// Indices are below this; some are free.
  [[nodiscard]] uint32_t size() const noexcept { return static_cast<uint32_t>(mappings_.size()); }
  [[nodiscard]] uint32_t in_use() const noexcept { return in_use_; }
  [[nodiscard]] bool is_public(Ipv4Address address) const noexcept {
    return pool_of(address) != kNone;
  }

 private:
  /// The ports of one public address and protocol: their owners, and a queue of free ones. A port
  /// of an adopted mapping may still be in the queue; take_port() skips it.
  struct PortPool {
    std::vector<uint16_t> queue;  ///< a ring
    uint32_t head{0};
    uint32_t count{0};
    std::vector<uint32_t> owner;   ///< by port - first_port
    std::vector<uint8_t> waiting;  ///< by port - first_port: whether it is in the queue
  };
  struct Free {
    void operator()(rte_hash* hash) const { rte_hash_free(hash); }
  };

  NatTable(const Options& options, rte_hash* hash);
  [[nodiscard]] uint32_t pool_of(Ipv4Address address) const noexcept;
  PortPool& ports_of(uint32_t pool, NatProto proto) {
    return ports_[pool * kNatProtos + static_cast<size_t>(proto)];
  }
  /// Takes the next free port out of the queue; 0 if there is none.
  uint16_t take_port(PortPool& ports) const noexcept;
  void release_port(PortPool& ports, uint16_t port) const noexcept;
  uint32_t insert(const NatEndpoint& inside, const NatEndpoint& outside) noexcept;

  Options options_;
  std::unique_ptr<rte_hash, Free> hash_;
  std::vector<NatMapping> mappings_;  ///< by the hash's position
  std::vector<PortPool> ports_;
  uint32_t in_use_{0};
};

}  // namespace headrace::vnf
