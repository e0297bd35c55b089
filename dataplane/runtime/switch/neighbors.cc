// SPDX-License-Identifier: Apache-2.0
#include "runtime/switch/neighbors.h"

#include <algorithm>
#include <cstring>

#include "packet/headers.h"
#include "packet/parse.h"

namespace headrace::runtime {
namespace {

constexpr size_t kFrame = 60;
constexpr uint16_t kRequest = 1;
constexpr uint16_t kReply = 2;

const packet::ArpHeader* arp_of(std::span<const uint8_t> frame) {
  const packet::ParsedPacket parsed = packet::parse(frame, packet::Depth::full);
  if (!parsed.has(packet::kArp)) return nullptr;
  return reinterpret_cast<const packet::ArpHeader*>(frame.data() + parsed.l3);
}

std::vector<uint8_t> make_arp(const uint8_t* to, const pipeline::MacAddress& mac,
                              uint16_t operation, RawIpv4 sender, const uint8_t* target_mac,
                              RawIpv4 target) {
  std::vector<uint8_t> frame(kFrame);
  auto* ethernet = reinterpret_cast<packet::EthernetHeader*>(frame.data());
  std::memcpy(ethernet->dst, to, 6);
  std::memcpy(ethernet->src, mac.data(), 6);
  ethernet->type = packet::kTypeArp;
  auto* arp = reinterpret_cast<packet::ArpHeader*>(frame.data() + sizeof *ethernet);
  arp->hardware_type = packet::swap16(1);
  arp->protocol_type = packet::kTypeIpv4;
  arp->hardware_length = 6;
  arp->protocol_length = 4;
  arp->operation = packet::swap16(operation);
  std::memcpy(arp->sender_mac, mac.data(), 6);
  arp->sender_ip = sender;
  std::memcpy(arp->target_mac, target_mac, 6);
  arp->target_ip = target;
  return frame;
}

}  // namespace

std::optional<pipeline::MacAddress> Neighbors::find(uint32_t underlay, RawIpv4 ip) const {
  const auto found = entries_.find({underlay, ip});
  return found == entries_.end() ? std::nullopt : found->second.mac;
}

bool Neighbors::should_ask(uint32_t underlay, RawIpv4 ip, Clock::time_point now) {
  Entry& entry = entries_[{underlay, ip}];
  if (entry.mac && now - entry.learned < kFresh) return false;
  if (entry.asked != Clock::time_point{} && now - entry.asked < kAskAgain) return false;
  entry.asked = now;
  return true;
}

bool Neighbors::learn(uint32_t underlay, std::span<const uint8_t> frame, Clock::time_point now) {
  const packet::ArpHeader* arp = arp_of(frame);
  if (arp == nullptr) return false;
  const auto found = entries_.find({underlay, arp->sender_ip});
  if (found == entries_.end()) return false;  // nobody needs it
  pipeline::MacAddress mac;
  std::memcpy(mac.data(), arp->sender_mac, mac.size());
  const bool changed = found->second.mac != mac;
  found->second.mac = mac;
  found->second.learned = now;
  return changed;
}

void Neighbors::expire(Clock::time_point now) {
  std::erase_if(entries_, [&](const auto& entry) {
    const Entry& what = entry.second;
    return now - std::max(what.learned, what.asked) > kStale ||
           (what.mac && now - what.learned > kStale);
  });
}

void Neighbors::forget(uint32_t underlay) {
  std::erase_if(entries_, [&](const auto& entry) { return entry.first.first == underlay; });
}

std::vector<uint8_t> arp_request(const pipeline::MacAddress& mac, RawIpv4 ip, RawIpv4 target) {
  constexpr uint8_t kBroadcast[] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  constexpr uint8_t kUnknown[6] = {};
  return make_arp(kBroadcast, mac, kRequest, ip, kUnknown, target);
}

std::optional<RawIpv4> arp_asks_for(std::span<const uint8_t> frame) {
  const packet::ArpHeader* arp = arp_of(frame);
  if (arp == nullptr || arp->operation != packet::swap16(kRequest)) return std::nullopt;
  return arp->target_ip;
}

std::vector<uint8_t> arp_reply(std::span<const uint8_t> request, const pipeline::MacAddress& mac,
                               RawIpv4 ip) {
  const packet::ArpHeader* arp = arp_of(request);
  return make_arp(arp->sender_mac, mac, kReply, ip, arp->sender_mac, arp->sender_ip);
}

}  // namespace headrace::runtime
