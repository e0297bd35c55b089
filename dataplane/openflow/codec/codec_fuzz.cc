// SPDX-License-Identifier: Apache-2.0
// libFuzzer target: every decoder on the same octets; decoded messages must be unchanged by
// encoding and decoding them again.
#include <cstdlib>

#include "openflow/codec/actions.h"
#include "openflow/codec/bundle_messages.h"
#include "openflow/codec/flow_monitor_messages.h"
#include "openflow/codec/flows.h"
#include "openflow/codec/groups.h"
#include "openflow/codec/instructions.h"
#include "openflow/codec/message.h"
#include "openflow/codec/meters.h"
#include "openflow/codec/multipart.h"
#include "openflow/codec/oxm.h"
#include "openflow/codec/packet_out.h"
#include "openflow/codec/ports.h"
#include "openflow/codec/switch_config.h"

namespace headrace::openflow {
namespace {

constexpr size_t kFlowModFixed = 40;

void round_trip(Bytes octets) {
  const auto mod = decode_flow_mod(octets);
  if (!mod) return;
  Message encoded(octets.begin(), octets.begin() + kFlowModFixed);
  Writer writer(encoded);
  encode_match(writer, mod->match);
  encode_instructions(writer, mod->instructions);
  const auto again = decode_flow_mod(encoded);
  if (!again || again->instructions != mod->instructions ||
      again->match.fields != mod->match.fields) {
    std::abort();
  }
}

void decode_all(Bytes octets) {
  round_trip(octets);
  (void)decode_header(octets);
  (void)hello_allows_us(4, octets);
  (void)decode_group_mod(octets);
  (void)decode_meter_mod(octets);
  (void)decode_packet_out(octets);
  (void)decode_flow_filter(octets);
  (void)decode_port_mod(octets);
  (void)decode_table_mod(octets);
  (void)decode_switch_config(octets);
  (void)decode_role_request(octets);
  (void)decode_async(octets);
  (void)decode_multipart_request(octets);
  (void)decode_queue_request(octets);
  (void)decode_bundle_control(octets);
  (void)decode_bundle_add(octets);
  (void)decode_flow_monitors(octets);
  (void)decode_flow_monitor_cancel(octets);
  (void)decode_queue_config_request(octets);
}

}  // namespace
}  // namespace headrace::openflow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  headrace::openflow::decode_all({data, size});
  return 0;
}
