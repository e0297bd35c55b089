// SPDX-License-Identifier: Apache-2.0
// `basestation`: the user plane of a mobile base station (D5.6, 3.4: IPsec, GTP-U). Uplink: users'
// IPv4 packets come in on the radio port (Ethernet stands for the radio bearer), are encapsulated
// in their GTP-U tunnels (3GPP TS 29.281), encrypted (ESP tunnel mode, as TS 33.210 requires) and
// sent to the core. Downlink: packets are decrypted, decapsulated and sent to their users.
// Configuration:
//
//   {"radio": "0", "core": "1",
//    "core_address": "192.0.2.1",          this end of the ESP tunnel
//    "security_gateway": "192.0.2.2",      its other end
//    "core_next_hop_mac": "02:..",         the next hop of packets for the core
//    "gtpu_address": "10.255.0.1",         this end of the GTP-U tunnels, inside ESP
//    "serving_gateway": "10.255.0.2",      their other end
//    "uplink": {"spi": 256, "suite": "aes-gcm", "key": "<hex>", "salt": "<hex>"},
//    "downlink": {"spi": 257, "suite": "aes-cbc-hmac-sha1", "key": "<hex>", "auth_key": "<hex>",
//                 "replay_window": 64, "extended_sequence": false},
//    "users": [{"address": "100.64.0.1", "count": 1000, "uplink_teid": 1, "downlink_teid": 1}]}
//
// Suites: aes-gcm (key of 16, 24 or 32 octets, salt of 4), aes-cbc-hmac-sha1 (HMAC key of 20
// octets), aes-cbc-hmac-sha256 (of 32). Keys in a file are for measurements only: see
// state/esp_sa.h. An entry of `users` stands for `count` users with consecutive addresses and
// TEIDs.
//
// A user may send only from the configured address. The user's MAC address is learnt from received
// packets. ARP requests are answered on the radio port for every address but the requester's own,
// on the core port for core_address. A base station is not an IP hop: TTLs are not decremented. It
// doesn't fragment: the core port's MTU must be at least a user's packet plus 36 (GTP-U), 20 (IPv4)
// and up to 60 octets (ESP).
#pragma once

#include <memory>

#include "vnf/function.h"

namespace headrace::vnf {

std::unique_ptr<Function> make_basestation(ConfigReader& config, const FunctionContext& context);

}  // namespace headrace::vnf
