// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/basestation_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace headrace::vnf {
namespace {

using Suite = EspParameters::Suite;

/// Octets from hexadecimal digits; on a malformed string, empty, and an error is added.
std::vector<uint8_t> read_hex(ConfigReader& config, const char* key) {
  const auto text = config.string(key);
  std::vector<uint8_t> bytes;
  for (size_t i = 0; i < text.size(); i += 2) {
    uint8_t octet = 0;
    const char* const end = text.data() + std::min(i + 2, text.size());
    const auto [stopped, code] = std::from_chars(text.data() + i, end, octet, 16);
    if (text.size() % 2 != 0 || code != std::errc{} || stopped != end) {
      config.add_error(key, "not an even number of hexadecimal digits");
      return {};
    }
    bytes.push_back(octet);
  }
  return bytes;
}

/// Error messages never contain a key: they may be logged.
void read_keys(ConfigReader& config, EspParameters& esp) {
  esp.key = read_hex(config, "key");
  if (!esp.key.empty() && !is_cipher_key_size(esp.key.size())) {
    config.add_error("key", fmt::format("{} octets; AES takes 16, 24 or 32", esp.key.size()));
  }
  if (esp.suite == Suite::aes_gcm) {
    const auto salt = read_hex(config, "salt");
    if (salt.size() == esp.salt.size()) {
      std::copy(salt.begin(), salt.end(), esp.salt.begin());
    } else if (!salt.empty()) {
      config.add_error("salt", fmt::format("{} octets; GCM takes 4", salt.size()));
    }
    return;
  }
  esp.auth_key = read_hex(config, "auth_key");
  const size_t wanted = auth_key_size(esp.suite);
  if (!esp.auth_key.empty() && esp.auth_key.size() != wanted) {
    config.add_error("auth_key",
                     fmt::format("{} octets; this suite takes {}", esp.auth_key.size(), wanted));
  }
}

EspParameters read_esp(ConfigReader config, EspParameters::Direction direction) {
  EspParameters esp{.direction = direction};
  esp.spi = static_cast<uint32_t>(config.integer("spi", 256, UINT32_MAX));  // RFC 4303, 2.1
  esp.suite = static_cast<Suite>(
      config.choice("suite", {"aes-gcm", "aes-cbc-hmac-sha1", "aes-cbc-hmac-sha256"}));
  read_keys(config, esp);
  esp.extended_sequence = config.boolean("extended_sequence", false);
  if (direction == EspParameters::Direction::open) {
    esp.replay_window = static_cast<uint32_t>(config.integer("replay_window", 0, 4096, 64));
  }
  config.finish();
  return esp;
}

void read_users(ConfigReader& config, BearerTable& bearers) {
  constexpr uint32_t kMaxUsers = 1 << 20;
  for (auto& entry : config.children("users")) {
    const BearerTable::Block block{
        .address = entry.ipv4("address"),
        .uplink_teid = static_cast<uint32_t>(entry.integer("uplink_teid", 1, UINT32_MAX)),
        .downlink_teid = static_cast<uint32_t>(entry.integer("downlink_teid", 1, UINT32_MAX)),
        .count = static_cast<uint32_t>(entry.integer("count", 1, kMaxUsers, 1))};
    const uint32_t most = std::max({block.address, block.uplink_teid, block.downlink_teid});
    if (most > UINT32_MAX - (block.count - 1)) {
      entry.add_error("count", "addresses or TEIDs would go beyond 32 bits");
    } else if (!bearers.add(block)) {
      entry.add_error("address", "an address or a downlink TEID of these is another user's");
    }
    entry.finish();
  }
  if (bearers.all().empty()) config.add_error("users", "give at least one");
}

}  // namespace

BasestationConfig read_basestation(ConfigReader& config, const FunctionContext& context) {
  BasestationConfig station;
  station.radio = context.port_index(config.string("radio"));
  station.core = context.port_index(config.string("core"));
  if (station.radio >= context.ports.size()) config.add_error("radio", "isn't in `ports`");
  if (station.core >= context.ports.size()) config.add_error("core", "isn't in `ports`");
  if (station.radio == station.core) config.add_error("core", "is the radio port");
  station.core_address = config.ipv4("core_address");
  station.security_gateway = config.ipv4("security_gateway");
  station.core_next_hop = config.mac("core_next_hop_mac");
  station.gtpu_address = config.ipv4("gtpu_address");
  station.serving_gateway = config.ipv4("serving_gateway");
  station.uplink = read_esp(config.child("uplink"), EspParameters::Direction::seal);
  station.downlink = read_esp(config.child("downlink"), EspParameters::Direction::open);
  station.uplink.outer_src = station.downlink.outer_dst = station.core_address;
  station.uplink.outer_dst = station.downlink.outer_src = station.security_gateway;
  read_users(config, station.bearers);
  return station;
}

}  // namespace headrace::vnf
