// SPDX-License-Identifier: Apache-2.0
// NORMAL: what a learning switch with VLANs does (section 5.1), as Open vSwitch does it.
//
// The table of addresses is asked for all packets of a burst before the first is learned or looked
// up, so that its cache misses overlap; then packet after packet learns and is looked up, in order,
// because a packet may be for an address that one before it brought. Packets for one port in a row
// leave together. Mostly no packet brings news and all are for one port: then they are only looked
// up.
#include "packet/mac_table.h"
#include "pipeline/execute/reserved_group.h"
#include "pipeline/execute/transmit.h"
#include "pipeline/execute/vlan_tags.h"
#include "pipeline/operations/reference_packet.h"
#include "pipeline/program/pseudo_port.h"

namespace headrace::pipeline {
namespace {

/// Why a packet of `vlan` may not go from one port to the other, or DropReason::none.
DropReason refusal_of(const Port* from, const Port& to, uint16_t vlan) {
  if (&to == from) return DropReason::input_port;
  if (const PortVlans* out = vlans_of(&to)) {
    if (!out->carries(vlan)) return DropReason::vlan_refused;
    const PortVlans* in = vlans_of(from);
    if (out->is_protected && in != nullptr && in->is_protected) return DropReason::port_protected;
  }
  return to.send_refusal.load(std::memory_order_relaxed);
}

constexpr size_t kAddressBytes = 6;

/// Packets of a burst on their way through the switch, by k. Arrays of words: a struct of octets
/// that is written by parts and copied whole stalls on store forwarding.
struct Bridged {
  std::array<uint32_t, kBurst> tag;      ///< kTagged and the TCI; 0: untagged
  std::array<uint32_t, kBurst> vlan;     ///< at the input port
  std::array<uint32_t, kBurst> refusal;  ///< DropReason; none: it is taken
};
constexpr uint32_t kTagged = 1u << 16;
constexpr auto kTaken = static_cast<uint32_t>(DropReason::none);

Tag tag_of(uint32_t word) {
  return {(word & kTagged) != 0, static_cast<uint16_t>(word & 0xfff),
          static_cast<uint8_t>(word >> 13 & 7)};
}

uint32_t read_tag_word(const rte_mbuf* packet) {
  constexpr size_t kTypeAt = 12;
  const auto* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
  if (packet->data_len < kTypeAt + 6 ||
      !packet::is_vlan_type(packet::load_raw16(frame + kTypeAt))) {
    return 0;
  }
  return kTagged | packet::load_be16(frame + kTypeAt + 2);
}

/// Fills in packet k. `vlans`: of the input port, or null.
void take_in(const Execution& x, const PortVlans* vlans, const rte_mbuf* packet, Bridged& bridged,
             size_t k) {
  const auto refuse = [&](DropReason reason) {
    bridged.refusal[k] = static_cast<uint32_t>(reason);
  };
  refuse(DropReason::none);
  if (packet->data_len < sizeof(packet::EthernetHeader)) [[unlikely]] {
    return refuse(DropReason::malformed);
  }
  if (is_reserved_group(rte_pktmbuf_mtod(packet, const uint8_t*)) &&
      !x.burst.program->forwards_reserved) [[unlikely]] {
    return refuse(DropReason::reserved_address);
  }
  const uint32_t word = read_tag_word(packet);
  bridged.tag[k] = word;
  bridged.vlan[k] = word & 0xfff;
  if (vlans == nullptr) return;
  const std::optional<uint16_t> vlan = vlans->vlan_of(static_cast<uint16_t>(word & 0xfff));
  if (!vlan) return refuse(DropReason::vlan_refused);
  bridged.vlan[k] = *vlan;
}

/// Sends the packet itself with the tag that its VLAN has at the port.
void send_in_vlan(Execution& x, PacketView view, const Tag& tag, uint16_t vlan, const Port& port) {
  const std::optional<uint16_t> then = tag_at(port, vlan, tag.priority);
  if (then == tag.vid_if_present()) {
    send(x, view, port);
    return;
  }
  packet::ParsedPacket parsed = *view.parsed;
  const DropReason reason = retag(view.packet, parsed, x.burst.parse_depth, tag, then);
  if (reason != DropReason::none) {
    x.drop(view.packet, reason);
  } else {
    send(x, {view.packet, view.key, &parsed}, port);
  }
}

/// Sends copies to all ports that the packet may leave by.
void flood(Execution& x, PacketView view, const Tag& tag, uint16_t vlan) {
  for (const Port* port : x.burst.program->ports) {
    if (refusal_of(x.burst.in_port, *port, vlan) != DropReason::none) continue;
    rte_mbuf* made = copy(x, view.packet);
    if (made != nullptr) send_in_vlan(x, {made, view.key, view.parsed}, tag, vlan, *port);
  }
}

/// Packets in a row for one port, that leave as they are.
class PortRun {
 public:
  explicit PortRun(Execution& x) : x_(x) {}
  ~PortRun() { flush(); }
  PortRun(const PortRun&) = delete;
  PortRun& operator=(const PortRun&) = delete;

  void add(const Port& port, rte_mbuf* packet) {
    if (&port != port_) {
      flush();
      port_ = &port;
    }
    packets_[count_++] = packet;
    bytes_ += packet->pkt_len;
  }
  void flush() {
    if (count_ != 0) {
      x_.tx.push_many(*port_, {packets_.data(), count_}, bytes_, x_.burst.depth + 1,
                      *x_.burst.worker);
    }
    count_ = 0;
    bytes_ = 0;
  }

 private:
  Execution& x_;
  const Port* port_{nullptr};
  size_t count_{0};
  uint64_t bytes_{0};
  std::array<rte_mbuf*, kBurst> packets_;
};

/// How packets of one VLAN and tag leave by one port: the same for many packets of a burst.
struct Way {
  PortNo number{0};
  uint32_t vlan{0};
  uint32_t tag{0};
  const Port* port{nullptr};
  DropReason refusal{DropReason::none};
  bool as_it_is{false};  ///< without a change of tags

  void update(const Execution& x, PortNo to, uint32_t in_vlan, uint32_t with_tag) {
    if (to == number && in_vlan == vlan && with_tag == tag) [[likely]] {
      return;
    }
    number = to;
    vlan = in_vlan;
    tag = with_tag;
    port = x.burst.program->port(to);
    if (port == nullptr) return;
    const auto vlan16 = static_cast<uint16_t>(vlan);
    refusal = refusal_of(x.burst.in_port, *port, vlan16);
    const Tag now = tag_of(tag);
    as_it_is = !port->is_tunnel && tag_at(*port, vlan16, now.priority) == now.vid_if_present();
  }
};

using Place = packet::MacTable::Place;

/// The addresses of a burst's packets, by k; of those that are taken.
struct Places {
  std::array<Place, kBurst> sources;
  std::array<Place, kBurst> destinations;
};

/// True if all packets are taken, none brings news to the table of addresses, and all have the tag
/// and VLAN of the first.
bool is_uniform(const Execution& x, const OpBurst& burst, const Bridged& bridged,
                const Places& places) {
  const PortNo in_port = x.burst.in_port_number;
  const bool learns = x.burst.in_port != nullptr;
  uint32_t differ = 0;
  for (size_t k = 0; k < burst.count; ++k) {
    differ |= bridged.refusal[k] ^ kTaken;
    if (differ != 0) return false;  // the rest was not filled in
    differ |= (bridged.tag[k] ^ bridged.tag[0]) | (bridged.vlan[k] ^ bridged.vlan[0]);
    differ |= learns && !packet::MacTable::is_learned(places.sources[k], in_port, x.tick);
  }
  return differ == 0;
}

/// Sends a uniform burst as it is, if all packets are for one port; else false, and nothing is
/// done.
bool send_uniform(Execution& x, OpBurst& burst, const Bridged& bridged, const Places& places) {
  const packet::MacTable& macs = *x.burst.program->macs;
  const std::optional<PortNo> first = macs.find(places.destinations[0], x.tick);
  if (!first) return false;
  std::array<rte_mbuf*, kBurst> packets;
  uint64_t bytes = 0;
  for (size_t k = 0; k < burst.count; ++k) {
    if (macs.find(places.destinations[k], x.tick) != first) return false;
    packets[k] = burst.block->packets[burst.at[k]];
    bytes += packets[k]->pkt_len;
  }
  Way way;
  way.update(x, *first, bridged.vlan[0], bridged.tag[0]);
  if (way.port == nullptr || way.refusal != DropReason::none || !way.as_it_is) return false;
  x.tx.push_many(*way.port, {packets.data(), burst.count}, bytes, x.burst.depth + 1,
                 *x.burst.worker);
  burst.count = 0;
  return true;
}

/// Packet after packet learns and leaves.
void bridge_each(Execution& x, const OpBurst& burst, const Bridged& bridged, const Places& places) {
  packet::MacTable& macs = *x.burst.program->macs;
  const Port* in_port = x.burst.in_port;
  PortRun run(x);
  Way way;
  for (size_t k = 0; k < burst.count; ++k) {
    const PacketView view = burst.view(k);
    const auto refuse = [&](DropReason reason) {
      x.count_drop(reason);
      if (burst.last) x.tx.free(view.packet);
    };
    if (bridged.refusal[k] != kTaken) [[unlikely]] {
      refuse(static_cast<DropReason>(bridged.refusal[k]));
      continue;
    }
    if (in_port != nullptr) macs.learn(places.sources[k], x.burst.in_port_number, x.tick);
    // A group address is never learned, so never found.
    const std::optional<PortNo> number = macs.find(places.destinations[k], x.tick);
    if (number) way.update(x, *number, bridged.vlan[k], bridged.tag[k]);
    const Port* port = number ? way.port : nullptr;
    if (port == nullptr) [[unlikely]] {
      run.flush();
      flood(x, view, tag_of(bridged.tag[k]), static_cast<uint16_t>(bridged.vlan[k]));
      if (burst.last) x.tx.free(view.packet);
      continue;
    }
    if (way.refusal != DropReason::none) [[unlikely]] {
      refuse(way.refusal);
      continue;
    }
    rte_mbuf* packet = burst.last ? view.packet : copy(x, view.packet);
    if (packet == nullptr) continue;
    if (way.as_it_is) [[likely]] {
      run.add(*port, packet);
    } else {
      run.flush();
      send_in_vlan(x, {packet, view.key, view.parsed}, tag_of(way.tag),
                   static_cast<uint16_t>(way.vlan), *port);
    }
  }
}

void run(Execution& x, OpBurst& burst) {
  const packet::MacTable& macs = *x.burst.program->macs;
  const PortVlans* in_vlans = vlans_of(x.burst.in_port);
  Bridged bridged;
  Places places;
  for (size_t k = 0; k < burst.count; ++k) {
    const rte_mbuf* packet = burst.block->packets[burst.at[k]];
    take_in(x, in_vlans, packet, bridged, k);
    if (bridged.refusal[k] != kTaken) [[unlikely]] {
      continue;
    }
    const auto* frame = rte_pktmbuf_mtod(packet, const uint8_t*);
    const auto vlan = static_cast<uint16_t>(bridged.vlan[k]);
    places.destinations[k] = macs.place(frame, vlan);
    places.sources[k] = macs.place(frame + kAddressBytes, vlan);
  }
  if (burst.last && is_uniform(x, burst, bridged, places) &&
      send_uniform(x, burst, bridged, places)) [[likely]] {
    return;
  }
  bridge_each(x, burst, bridged, places);
  if (burst.last) burst.count = 0;
}

/// Sends a copy with the tag that its VLAN has at the port; why not, else.
DropReason reference_send(ReferencePacket& packet, const Tag& tag, uint16_t vlan, PortNo to) {
  if (to == packet.in_port) return DropReason::input_port;
  const PortVlans* in = packet.sw.vlans(packet.in_port);
  const PortVlans* out = packet.sw.vlans(to);
  if (out != nullptr && !out->carries(vlan)) return DropReason::vlan_refused;
  if (out != nullptr && in != nullptr && out->is_protected && in->is_protected) {
    return DropReason::port_protected;
  }
  const std::optional<uint16_t> then = out != nullptr ? out->tag_of(vlan, tag.priority)
                                       : vlan != 0    ? std::optional(vlan)
                                                      : std::nullopt;
  ReferencePacket own = packet;
  own.mbuf = rte_pktmbuf_copy(packet.mbuf, packet.mbuf->pool, 0, UINT32_MAX);
  if (own.mbuf == nullptr) return DropReason::no_buffer;
  DropReason reason = DropReason::none;
  if (then != tag.vid_if_present()) {
    reason = retag(own.mbuf, own.parsed, packet::Depth::full, tag, then);
    own.refresh();
  }
  if (reason == DropReason::none) packet.sw.send(own, to);
  rte_pktmbuf_free(own.mbuf);
  return reason;
}

void reference(ReferencePacket& packet, const OutputAction&) {
  ReferenceSwitch& sw = packet.sw;
  if (packet.mbuf->data_len < sizeof(packet::EthernetHeader)) {
    return sw.refuse(packet, DropReason::malformed);
  }
  const auto* frame = rte_pktmbuf_mtod(packet.mbuf, const uint8_t*);
  if (is_reserved_group(frame) && !sw.forwards_reserved()) {
    return sw.refuse(packet, DropReason::reserved_address);
  }
  const Tag tag = read_tag(packet.mbuf);
  const PortVlans* in = sw.vlans(packet.in_port);
  const std::optional<uint16_t> vlan = in == nullptr ? tag.vid : in->vlan_of(tag.vid);
  if (!vlan) return sw.refuse(packet, DropReason::vlan_refused);
  const auto address = [&](const uint8_t* mac) {
    uint64_t bits = *vlan;
    for (size_t i = 0; i < kAddressBytes; ++i) bits = bits << 8 | mac[i];
    return bits;
  };
  const uint64_t source = address(frame + kAddressBytes);
  if ((frame[kAddressBytes] & 1) == 0 && source != 0) sw.learn(source, packet.in_port);
  const PortNo known = (frame[0] & 1) != 0 ? 0 : sw.find(address(frame));
  if (known == 0) {
    for (const PortNo port : sw.flood_ports(packet)) reference_send(packet, tag, *vlan, port);
    return;
  }
  const DropReason reason = reference_send(packet, tag, *vlan, known);
  if (reason != DropReason::none) sw.refuse(packet, reason);
}

}  // namespace

extern const PseudoPort pseudo_port_normal{.number = kPortNormal,
                                           .name = "NORMAL",
                                           .reaches_all = true,
                                           .run = run,
                                           .reference = reference};

}  // namespace headrace::pipeline
