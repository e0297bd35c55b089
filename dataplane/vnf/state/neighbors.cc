// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/neighbors.h"

#include <rte_errno.h>
#include <rte_hash_crc.h>
#include <rte_memory.h>

#include <algorithm>

namespace headrace::vnf {

template <typename Address>
Result<std::unique_ptr<BasicNeighborTable<Address>>> BasicNeighborTable<Address>::make(
    uint32_t capacity) {
  static unsigned serial = 0;
  const auto name = fmt::format("neighbors{}_{}", sizeof(Address), serial++);
  rte_hash_parameters parameters{};
  parameters.name = name.c_str();
  parameters.entries = capacity;
  parameters.key_len = sizeof(Address);
  parameters.hash_func = rte_hash_crc;
  parameters.socket_id = SOCKET_ID_ANY;
  rte_hash* hash = rte_hash_create(&parameters);
  if (hash == nullptr) {
    return fail("no memory for {} neighbors: {}", capacity, rte_strerror(rte_errno));
  }
  return std::unique_ptr<BasicNeighborTable>(new BasicNeighborTable(hash, capacity));
}

template <typename Address>
BasicNeighborTable<Address>::BasicNeighborTable(rte_hash* hash, uint32_t capacity)
    : hash_(hash), entries_(static_cast<size_t>(rte_hash_max_key_id(hash)) + 1) {
  used_.reserve(capacity);
}

template <typename Address>
BasicNeighborTable<Address>::~BasicNeighborTable() {
  for (const uint32_t index : used_) {
    Neighbor& neighbor = entries_[index];
    rte_pktmbuf_free_bulk(neighbor.queue.data(), neighbor.queued);
  }
}

template <typename Address>
uint32_t BasicNeighborTable<Address>::find(const Address& address) const noexcept {
  const int position = rte_hash_lookup(hash_.get(), &address);
  return position < 0 ? kNone : static_cast<uint32_t>(position);
}

template <typename Address>
uint32_t BasicNeighborTable<Address>::find_or_add(const Address& address, uint16_t port) noexcept {
  if (const uint32_t found = find(address); found != kNone) return found;
  if (used_.size() == used_.capacity()) return kNone;
  const int position = rte_hash_add_key(hash_.get(), &address);
  if (position < 0) return kNone;
  const auto index = static_cast<uint32_t>(position);
  entries_[index] = Neighbor{};
  entries_[index].state = Neighbor::State::incomplete;
  entries_[index].address = address;
  entries_[index].port = port;
  used_.push_back(index);
  return index;
}

template <typename Address>
rte_mbuf* BasicNeighborTable<Address>::enqueue(Neighbor& neighbor, rte_mbuf* packet) noexcept {
  rte_mbuf* oldest = nullptr;
  if (neighbor.queued == Neighbor::kQueue) {
    oldest = neighbor.queue[0];
    std::copy(neighbor.queue.begin() + 1, neighbor.queue.end(), neighbor.queue.begin());
    --neighbor.queued;
  }
  neighbor.queue[neighbor.queued++] = packet;
  return oldest;
}

template <typename Address>
void BasicNeighborTable<Address>::remove(uint32_t index) noexcept {
  rte_hash_del_key(hash_.get(), &entries_[index].address);
  entries_[index].state = Neighbor::State::free;
  const auto it = std::find(used_.begin(), used_.end(), index);
  *it = used_.back();
  used_.pop_back();
}

template class BasicNeighborTable<Ipv4Address>;
template class BasicNeighborTable<Ipv6OnLink>;

}  // namespace headrace::vnf
