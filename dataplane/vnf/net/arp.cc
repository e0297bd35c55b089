// SPDX-License-Identifier: Apache-2.0
#include "vnf/net/arp.h"

#include <cstring>

namespace headrace::vnf {
namespace {

constexpr size_t kArpFrame = sizeof(packet::EthernetHeader) + sizeof(packet::ArpHeader);
constexpr uint16_t kHardwareEthernet = packet::swap16(1);

}  // namespace

packet::ArpHeader* arp_of(rte_mbuf* frame) {
  if (rte_pktmbuf_data_len(frame) < kArpFrame) return nullptr;
  auto* arp = rte_pktmbuf_mtod_offset(frame, packet::ArpHeader*, sizeof(packet::EthernetHeader));
  const bool ours = arp->hardware_type == kHardwareEthernet &&
                    arp->protocol_type == packet::kTypeIpv4 && arp->hardware_length == 6 &&
                    arp->protocol_length == 4;
  return ours ? arp : nullptr;
}

rte_mbuf* make_arp_request(rte_mempool* pool, const ArpEnd& sender, Ipv4Address target) {
  rte_mbuf* frame = rte_pktmbuf_alloc(pool);
  if (frame == nullptr) return nullptr;
  auto* bytes = reinterpret_cast<uint8_t*>(rte_pktmbuf_append(frame, kArpFrame));
  if (bytes == nullptr) {  // the pool's buffers are too small for any frame
    rte_pktmbuf_free(frame);
    return nullptr;
  }
  auto& ethernet = *reinterpret_cast<packet::EthernetHeader*>(bytes);
  std::memset(ethernet.dst, 0xff, sizeof ethernet.dst);
  std::memcpy(ethernet.src, sender.mac.data(), sender.mac.size());
  ethernet.type = packet::kTypeArp;
  auto& arp = *reinterpret_cast<packet::ArpHeader*>(bytes + sizeof ethernet);
  arp.hardware_type = kHardwareEthernet;
  arp.protocol_type = packet::kTypeIpv4;
  arp.hardware_length = 6;
  arp.protocol_length = 4;
  arp.operation = kArpRequest;
  std::memcpy(arp.sender_mac, sender.mac.data(), sender.mac.size());
  arp.sender_ip = packet::swap32(sender.address);
  std::memset(arp.target_mac, 0, sizeof arp.target_mac);
  arp.target_ip = packet::swap32(target);
  return frame;
}

void answer_arp(rte_mbuf* frame, const ArpEnd& own) {
  auto& ethernet = *rte_pktmbuf_mtod(frame, packet::EthernetHeader*);
  auto& arp = *arp_of(frame);
  std::memcpy(ethernet.dst, arp.sender_mac, sizeof ethernet.dst);
  std::memcpy(ethernet.src, own.mac.data(), own.mac.size());
  arp.operation = kArpReply;
  std::memcpy(arp.target_mac, arp.sender_mac, sizeof arp.target_mac);
  arp.target_ip = arp.sender_ip;
  std::memcpy(arp.sender_mac, own.mac.data(), own.mac.size());
  arp.sender_ip = packet::swap32(own.address);
}

}  // namespace headrace::vnf
