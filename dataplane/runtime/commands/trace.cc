// SPDX-License-Identifier: Apache-2.0
// ofproto/trace: what becomes of a packet that an operator describes (pipeline/trace/tracer.h).
#include <rte_mbuf.h>

#include <cctype>
#include <cstring>
#include <memory>
#include <vector>

#include "pipeline/trace/compose.h"
#include "pipeline/trace/flow_parser.h"
#include "pipeline/trace/tracer.h"
#include "runtime/commands/commands.h"

namespace headrace::runtime {
namespace {

using Arguments = unixctl::Command::Arguments;

struct FreeMbuf {
  void operator()(rte_mbuf* packet) const { rte_pktmbuf_free(packet); }
};

/// Octets of a text of hexadecimal digits, with spaces wherever.
Result<std::vector<uint8_t>> octets_of(const std::string& text) {
  std::string digits;
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) != 0) continue;
    if (std::isxdigit(static_cast<unsigned char>(c)) == 0) {
      return fail("Trailing garbage in packet data: '{}' is no hexadecimal digit", c);
    }
    digits += c;
  }
  if (digits.size() % 2 != 0) return fail("Packet data has an odd number of hexadecimal digits");
  std::vector<uint8_t> octets;
  for (size_t i = 0; i < digits.size(); i += 2) {
    octets.push_back(static_cast<uint8_t>(std::stoul(digits.substr(i, 2), nullptr, 16)));
  }
  if (octets.size() < sizeof(packet::EthernetHeader)) {
    return fail("Packet data too short for Ethernet");
  }
  return octets;
}

Result<> fill(rte_mbuf* packet, const std::vector<uint8_t>& octets) {
  char* data = octets.size() > UINT16_MAX
                   ? nullptr
                   : rte_pktmbuf_append(packet, static_cast<uint16_t>(octets.size()));
  if (data == nullptr) return fail("Packet data too long: {} octets", octets.size());
  std::memcpy(data, octets.data(), octets.size());
  return {};
}

Result<std::string> run(const Switch& the_switch, Arguments arguments) {
  const SwitchLsi* lsi = the_switch.find(arguments[0]);
  if (lsi == nullptr) return fail("{}: unknown bridge", arguments[0]);
  const auto ports = [lsi](std::string_view name) -> std::optional<uint32_t> {
    const SwitchPort* port = lsi->find_port(name);
    return port == nullptr ? std::nullopt : std::optional<uint32_t>(port->spec.number);
  };
  const bool given = arguments.size() == 3 && arguments[2] != "-generate";
  if (arguments.size() == 3 && arguments[2].starts_with("-") && !given) {
    return fail("-generate is not served: a trace learns nothing and sends nothing; leave it out");
  }
  Result<pipeline::FlowText> flow = pipeline::parse_flow(arguments[1], ports);
  if (!flow) return tl::unexpected(flow.error());
  const std::unique_ptr<rte_mbuf, FreeMbuf> packet(
      rte_pktmbuf_alloc(the_switch.pools().all().front()));
  if (packet == nullptr) return fail("no packet buffer is free");
  if (given) {
    const Result<std::vector<uint8_t>> octets = octets_of(arguments[2]);
    if (!octets) return tl::unexpected(octets.error());
    if (Result<> filled = fill(packet.get(), *octets); !filled) {
      return tl::unexpected(filled.error());
    }
  } else if (Result<> composed = pipeline::compose(*flow, packet.get()); !composed) {
    return fail("Bad openflow flow syntax: {}: {}", arguments[1], composed.error().message);
  }
  const match::FlowKey& key = flow->fields.value;
  const pipeline::TracedFields fields{.metadata = key.metadata,
                                      .tunnel_id = key.tunnel_id,
                                      .tun_src = key.tun_src,
                                      .tun_dst = key.tun_dst};
  return pipeline::trace(lsi->lsi(), __builtin_bswap32(key.in_port), packet.get(), fields).text;
}

}  // namespace

void add_trace_commands(unixctl::Commands& commands, Switch& the_switch) {
  commands.add({.name = "ofproto/trace",
                .usage = "bridge br_flow [packet]",
                .min_arguments = 2,
                .max_arguments = 3,
                .run = [&the_switch](Arguments arguments) { return run(the_switch, arguments); }});
}

}  // namespace headrace::runtime
