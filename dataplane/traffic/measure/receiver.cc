// SPDX-License-Identifier: Apache-2.0
#include "traffic/measure/receiver.h"

#include <rte_prefetch.h>

#include <algorithm>

namespace headrace::traffic {

Receiver::Receiver(std::span<const std::unique_ptr<Arrivals>> streams,
                   std::span<const uint16_t> ports)
    : ports_(ports.begin(), ports.end()), misdelivered_(streams.size()) {
  for (const auto& stream : streams) streams_.push_back(stream.get());
}

void Receiver::start(uint8_t run, uint8_t warmup, bool bare) {
  run_ = run;
  warmup_ = warmup;
  bare_ = bare;
  for (Counter& counter : misdelivered_) counter.set(0);
  for (Arrivals* stream : streams_) {
    if (std::ranges::find(ports_, stream->rx_port) == ports_.end()) continue;
    for (Counter* counter :
         {&stream->received, &stream->duplicated, &stream->reordered, &stream->ancient}) {
      counter->set(0);
    }
    stream->latency.clear();
    stream->sequence.clear();
  }
  foreign_.set(0);
  stale_.set(0);
}

void Receiver::count_bare(uint16_t port, size_t packets) noexcept {
  for (Arrivals* stream : streams_) {
    if (stream->rx_port == port) return stream->received.add(packets);
  }
  foreign_.add(packets);
}

void Receiver::process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t now) noexcept {
  if (bare_) {
    count_bare(port, packets.size());
    rte_pktmbuf_free_bulk(packets.data(), static_cast<unsigned>(packets.size()));
    return;
  }
  for (const rte_mbuf* packet : packets) {
    rte_prefetch0(rte_pktmbuf_mtod_offset(packet, const uint8_t*, packet->data_len) -
                  Signature::kBytes);
  }
  for (const rte_mbuf* packet : packets) process_one(port, packet, now);
  rte_pktmbuf_free_bulk(packets.data(), static_cast<unsigned>(packets.size()));
}

void Receiver::process_one(uint16_t port, const rte_mbuf* packet, uint64_t now) noexcept {
  if (packet->pkt_len < Signature::kBytes) return foreign_.add(1);
  uint8_t copy[Signature::kBytes];
  const auto* mark = static_cast<const uint8_t*>(
      rte_pktmbuf_read(packet, packet->pkt_len - Signature::kBytes, Signature::kBytes, copy));
  auto signature = Signature::read(mark);
  if (!signature && packet->data_len == packet->pkt_len) [[unlikely]] {
    signature = Signature::read_padded(rte_pktmbuf_mtod(packet, const uint8_t*), packet->data_len);
  }
  if (!signature || signature->stream >= streams_.size()) return foreign_.add(1);
  if (signature->run != run_) {
    if (signature->run != warmup_) stale_.add(1);
    return;
  }
  Arrivals& stream = *streams_[signature->stream];
  if (port != stream.rx_port) return misdelivered_[signature->stream].add(1);
  switch (stream.sequence.record(signature->sequence)) {
    case SequenceTracker::Arrival::in_order:
      break;
    case SequenceTracker::Arrival::reordered:
      stream.reordered.add(1);
      break;
    case SequenceTracker::Arrival::duplicate:
      return stream.duplicated.add(1);
    case SequenceTracker::Arrival::ancient:
      return stream.ancient.add(1);
  }
  stream.received.add(1);
  stream.latency.record(signature->age(now));
}

}  // namespace headrace::traffic
