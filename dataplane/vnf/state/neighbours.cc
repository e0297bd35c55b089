// SPDX-License-Identifier: Apache-2.0
#include "vnf/state/neighbours.h"

#include <rte_errno.h>
#include <rte_hash_crc.h>
#include <rte_memory.h>

#include <algorithm>

namespace headrace::vnf {

template <typename Address>
Result<std::unique_ptr<BasicNeighbourTable<Address>>> BasicNeighbourTable<Address>::make(
    uint32_t capacity) {
  static unsigned serial = 0;
  const auto name = fmt::format("neighbours{}_{}", sizeof(Address), serial++);
  rte_hash_parameters parameters{};
  parameters.name = name.c_str();
  parameters.entries = capacity;
  parameters.key_len = sizeof(Address);
  parameters.hash_func = rte_hash_crc;
  parameters.socket_id = SOCKET_ID_ANY;
  rte_hash* hash = rte_hash_create(&parameters);
  if (hash == nullptr) {
    return fail("no memory for {} neighbours: {}", capacity, rte_strerror(rte_errno));
  }
  return std::unique_ptr<BasicNeighbourTable>(new BasicNeighbourTable(hash, capacity));
}

template <typename Address>
BasicNeighbourTable<Address>::BasicNeighbourTable(rte_hash* hash, uint32_t capacity)
    : hash_(hash), entries_(static_cast<size_t>(rte_hash_max_key_id(hash)) + 1) {
  used_.reserve(capacity);
}

template <typename Address>
BasicNeighbourTable<Address>::~BasicNeighbourTable() {
  for (const uint32_t index : used_) {
    Neighbour& neighbour = entries_[index];
    rte_pktmbuf_free_bulk(neighbour.queue.data(), neighbour.queued);
  }
}

template <typename Address>
uint32_t BasicNeighbourTable<Address>::find(const Address& address) const noexcept {
  const int position = rte_hash_lookup(hash_.get(), &address);
  return position < 0 ? kNone : static_cast<uint32_t>(position);
}

template <typename Address>
uint32_t BasicNeighbourTable<Address>::find_or_add(const Address& address, uint16_t port) noexcept {
  if (const uint32_t found = find(address); found != kNone) return found;
  if (used_.size() == used_.capacity()) return kNone;
  const int position = rte_hash_add_key(hash_.get(), &address);
  if (position < 0) return kNone;
  const auto index = static_cast<uint32_t>(position);
  entries_[index] = Neighbour{};
  entries_[index].state = Neighbour::State::incomplete;
  entries_[index].address = address;
  entries_[index].port = port;
  used_.push_back(index);
  return index;
}

template <typename Address>
rte_mbuf* BasicNeighbourTable<Address>::enqueue(Neighbour& neighbour, rte_mbuf* packet) noexcept {
  rte_mbuf* oldest = nullptr;
  if (neighbour.queued == Neighbour::kQueue) {
    oldest = neighbour.queue[0];
    std::copy(neighbour.queue.begin() + 1, neighbour.queue.end(), neighbour.queue.begin());
    --neighbour.queued;
  }
  neighbour.queue[neighbour.queued++] = packet;
  return oldest;
}

template <typename Address>
void BasicNeighbourTable<Address>::remove(uint32_t index) noexcept {
  rte_hash_del_key(hash_.get(), &entries_[index].address);
  entries_[index].state = Neighbour::State::free;
  const auto it = std::find(used_.begin(), used_.end(), index);
  *it = used_.back();
  used_.pop_back();
}

template class BasicNeighbourTable<Ipv4Address>;
template class BasicNeighbourTable<Ipv6OnLink>;

}  // namespace headrace::vnf
