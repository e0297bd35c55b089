// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/nat_table.h"

#include <rte_errno.h>
#include <rte_hash_crc.h>
#include <rte_memory.h>
#include <rte_random.h>

#include <algorithm>

namespace headrace::vnf {
namespace {

/// A hash key without padding.
uint64_t key_of(const NatEndpoint& endpoint) {
  return uint64_t{endpoint.address} << 32 | uint64_t{endpoint.port} << 16 |
         static_cast<uint64_t>(endpoint.proto);
}

}  // namespace

Result<std::unique_ptr<NatTable>> NatTable::make(const Options& options) {
  static unsigned serial = 0;
  const auto name = fmt::format("nat{}", serial++);
  rte_hash_parameters parameters{};
  parameters.name = name.c_str();
  parameters.entries = options.capacity;
  parameters.key_len = sizeof(uint64_t);
  parameters.hash_func = rte_hash_crc;
  parameters.socket_id = SOCKET_ID_ANY;
  parameters.extra_flag = RTE_HASH_EXTRA_FLAGS_EXT_TABLE;
  rte_hash* hash = rte_hash_create(&parameters);
  if (hash == nullptr) {
    return fail("no memory for {} mappings: {}; raise eal.memory_mb", options.capacity,
                rte_strerror(rte_errno));
  }
  return std::unique_ptr<NatTable>(new NatTable(options, hash));
}

NatTable::NatTable(const Options& options, rte_hash* hash)
    : options_(options),
      hash_(hash),
      mappings_(static_cast<size_t>(rte_hash_max_key_id(hash)) + 1),
      ports_(options.addresses.size() * kNatProtos) {
  const uint32_t count = uint32_t{options.last_port} - options.first_port + 1;
  for (PortPool& pool : ports_) {
    pool.owner.assign(count, kNone);
    pool.waiting.assign(count, 1);
    pool.queue.resize(count);
    for (uint32_t i = 0; i < count; ++i) {
      const auto j = static_cast<uint32_t>(rte_rand_max(i + 1));  // Fisher and Yates, inside out
      pool.queue[i] = pool.queue[j];
      pool.queue[j] = static_cast<uint16_t>(options.first_port + i);
    }
    pool.count = count;
  }
}

uint32_t NatTable::pool_of(Ipv4Address address) const noexcept {
  const auto it = std::find(options_.addresses.begin(), options_.addresses.end(), address);
  return it == options_.addresses.end() ? kNone
                                        : static_cast<uint32_t>(it - options_.addresses.begin());
}

uint32_t NatTable::find_inside(const NatEndpoint& inside) const noexcept {
  const uint64_t key = key_of(inside);
  const int position = rte_hash_lookup(hash_.get(), &key);
  return position < 0 ? kNone : static_cast<uint32_t>(position);
}

uint32_t NatTable::find_outside(const NatEndpoint& outside) const noexcept {
  const uint32_t pool = pool_of(outside.address);
  if (pool == kNone || outside.port < options_.first_port || outside.port > options_.last_port) {
    return kNone;
  }
  return ports_[pool * kNatProtos + static_cast<size_t>(outside.proto)]
      .owner[outside.port - options_.first_port];
}

uint32_t NatTable::insert(const NatEndpoint& inside, const NatEndpoint& outside) noexcept {
  if (in_use_ == options_.capacity) return kNone;
  const uint64_t key = key_of(inside);
  const int position = rte_hash_add_key(hash_.get(), &key);
  if (position < 0) return kNone;
  const auto index = static_cast<uint32_t>(position);
  mappings_[index] = {.state = NatMapping::State::open, .inside = inside, .outside = outside};
  ++in_use_;
  return index;
}

uint32_t NatTable::add(const NatEndpoint& inside, uint64_t now, Failure& failure) noexcept {
  const auto pool =
      static_cast<uint32_t>(rte_hash_crc_4byte(inside.address, 0) % options_.addresses.size());
  PortPool& ports = ports_of(pool, inside.proto);
  const uint16_t port = take_port(ports);
  if (port == 0) {
    failure = Failure::ports_exhausted;
    return kNone;
  }
  const uint32_t index = insert(inside, {options_.addresses[pool], port, inside.proto});
  if (index == kNone) {
    release_port(ports, port);
    failure = Failure::table_full;
    return kNone;
  }
  ports.owner[port - options_.first_port] = index;
  mappings_[index].last_used = now;
  return index;
}

uint16_t NatTable::take_port(PortPool& ports) const noexcept {
  while (ports.count > 0) {
    const uint16_t port = ports.queue[ports.head];
    ports.head = static_cast<uint32_t>((ports.head + 1) % ports.queue.size());
    --ports.count;
    ports.waiting[port - options_.first_port] = 0;
    if (ports.owner[port - options_.first_port] == kNone) return port;
  }
  return 0;
}

void NatTable::release_port(PortPool& ports, uint16_t port) const noexcept {
  uint8_t& waiting = ports.waiting[port - options_.first_port];
  if (waiting != 0) return;
  waiting = 1;
  ports.queue[(ports.head + ports.count) % ports.queue.size()] = port;
  ++ports.count;
}

bool NatTable::adopt(const NatMapping& mapping) noexcept {
  const uint32_t pool = pool_of(mapping.outside.address);
  const uint16_t port = mapping.outside.port;
  if (pool == kNone || port < options_.first_port || port > options_.last_port) return false;
  PortPool& ports = ports_of(pool, mapping.outside.proto);
  if (ports.owner[port - options_.first_port] != kNone) return false;
  const uint32_t index = insert(mapping.inside, mapping.outside);
  if (index == kNone) return false;
  mappings_[index] = mapping;
  ports.owner[port - options_.first_port] = index;
  return true;
}

void NatTable::remove(uint32_t index) noexcept {
  NatMapping& mapping = mappings_[index];
  const uint64_t key = key_of(mapping.inside);
  rte_hash_del_key(hash_.get(), &key);
  PortPool& ports = ports_of(pool_of(mapping.outside.address), mapping.outside.proto);
  ports.owner[mapping.outside.port - options_.first_port] = kNone;
  release_port(ports, mapping.outside.port);
  mapping.state = NatMapping::State::free;
  --in_use_;
}

}  // namespace headrace::vnf
