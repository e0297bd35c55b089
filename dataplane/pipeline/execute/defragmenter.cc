// SPDX-License-Identifier: Apache-2.0
#include "pipeline/execute/defragmenter.h"

#include <rte_errno.h>
#include <rte_ip_frag.h>
#include <rte_lcore.h>

#include "packet/checksum.h"
#include "packet/edit.h"

namespace headrace::pipeline {
namespace {

constexpr uint32_t kBuckets = 512;
constexpr uint32_t kEntriesOfBucket = 4;
constexpr uint32_t kPackets = 1024;
constexpr uint64_t kSeconds = 5;

/// What an mbuf says of itself for offloads that are done here in software.
void forget_offloads(rte_mbuf* packet) {
  packet->ol_flags &= ~(RTE_MBUF_F_TX_IP_CKSUM | RTE_MBUF_F_TX_IPV4 | RTE_MBUF_F_TX_IPV6);
}

rte_mbuf* finish_whole(rte_mbuf* whole, size_t l3, bool four) {
  forget_offloads(whole);
  // In one piece where there is room, since not every device takes chains; else as it is.
  if (whole->nb_segs > 1) (void)rte_pktmbuf_linearize(whole);
  if (four) {
    auto* ip = rte_pktmbuf_mtod_offset(whole, packet::Ipv4Header*, l3);
    const size_t size = (ip->version_ihl & 0xfu) * 4u;
    ip->checksum = 0;
    ip->checksum = packet::checksum({reinterpret_cast<const uint8_t*>(ip), size});
  }
  return whole;
}

}  // namespace

struct Defragmenter::PerWorker {
  ~PerWorker() {
    rte_ip_frag_free_death_row(&dead, 0);
    if (table != nullptr) rte_ip_frag_table_destroy(table);
  }
  rte_ip_frag_tbl* table{nullptr};
  rte_ip_frag_death_row dead{};
};

Defragmenter::Defragmenter(unsigned workers) : workers_(workers) {}

Defragmenter::~Defragmenter() = default;

Result<std::shared_ptr<Defragmenter>> Defragmenter::make(unsigned workers, uint64_t hz) {
  std::shared_ptr<Defragmenter> made(new Defragmenter(workers));
  for (std::unique_ptr<PerWorker>& worker : made->workers_) {
    worker = std::make_unique<PerWorker>();
    worker->table = rte_ip_frag_table_create(kBuckets, kEntriesOfBucket, kPackets, hz * kSeconds,
                                             SOCKET_ID_ANY);
    if (worker->table == nullptr) return fail("no memory for a table of fragments");
  }
  return made;
}

rte_mbuf* Defragmenter::take(unsigned worker, rte_mbuf* packet, uint64_t tsc) noexcept {
  const packet::ParsedPacket parsed = packet::parse(packet::frame_of(packet), packet::Depth::l4);
  if (!parsed.has(packet::kFragment)) return packet;
  if (worker >= workers_.size()) return packet;
  PerWorker& own = *workers_[worker];
  const size_t l3 = parsed.l3;
  packet->l2_len = parsed.l3;
  if (parsed.has(packet::kIpv4)) {
    auto* ip = rte_pktmbuf_mtod_offset(packet, rte_ipv4_hdr*, l3);
    packet->l3_len = static_cast<uint16_t>((ip->version_ihl & 0xf) * 4);
    rte_mbuf* whole = rte_ipv4_frag_reassemble_packet(own.table, &own.dead, packet, tsc, ip);
    return whole == nullptr ? nullptr : finish_whole(whole, l3, true);
  }
  auto* ip = rte_pktmbuf_mtod_offset(packet, rte_ipv6_hdr*, l3);
  rte_ipv6_fragment_ext* fragment = rte_ipv6_frag_get_ipv6_fragment_header(ip);
  if (fragment == nullptr) return packet;  // behind other extension headers
  packet->l3_len = sizeof(rte_ipv6_hdr) + sizeof(rte_ipv6_fragment_ext);
  rte_mbuf* whole =
      rte_ipv6_frag_reassemble_packet(own.table, &own.dead, packet, tsc, ip, fragment);
  return whole == nullptr ? nullptr : finish_whole(whole, l3, false);
}

unsigned Defragmenter::finish(unsigned worker, uint64_t tsc) noexcept {
  if (worker >= workers_.size()) return 0;
  PerWorker& own = *workers_[worker];
  rte_ip_frag_table_del_expired_entries(own.table, &own.dead, tsc);
  const unsigned dead = own.dead.cnt;
  if (dead != 0) rte_ip_frag_free_death_row(&own.dead, 0);
  return dead;
}

}  // namespace headrace::pipeline
