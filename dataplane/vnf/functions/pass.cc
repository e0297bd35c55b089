// SPDX-License-Identifier: Apache-2.0
#include "vnf/functions/pass.h"

#include <rte_prefetch.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "packet/headers.h"
#include "vnf/functions/pairs.h"

namespace headrace::vnf {
namespace {

enum class MacMode : uint8_t { keep, swap, set };

/// The addresses that packets sent from a port get, in "set" mode.
struct Rewrite {
  std::optional<MacAddress> src;
  std::optional<MacAddress> dst;
};

/// The output port of an input port.
struct Path {
  uint16_t out{kUnpaired};
  Rewrite rewrite;
};

void swap_macs(packet::EthernetHeader& ethernet) {
  MacAddress saved;
  std::memcpy(saved.data(), ethernet.dst, saved.size());
  std::memcpy(ethernet.dst, ethernet.src, saved.size());
  std::memcpy(ethernet.src, saved.data(), saved.size());
}

class Pass final : public Function {
 public:
  Pass(std::vector<Path> paths, MacMode mode) : paths_(std::move(paths)), mode_(mode) {}

  void process(uint16_t port, std::span<rte_mbuf*> packets, uint64_t /*now*/,
               Output& output) noexcept override {
    const Path& path = paths_[port];
    if (path.out == kUnpaired) {
      output.drop(packets, DropReason::no_route);
      return;
    }
    if (mode_ != MacMode::keep) {
      for (rte_mbuf* packet : packets) rte_prefetch0_write(rte_pktmbuf_mtod(packet, void*));
      for (rte_mbuf* packet : packets) rewrite(path, packet);
    }
    output.send(path.out, packets);
  }

 private:
  /// Frames too short for addresses can't come from Ethernet; they are forwarded unchanged.
  void rewrite(const Path& path, rte_mbuf* packet) const noexcept {
    if (rte_pktmbuf_data_len(packet) < sizeof(packet::EthernetHeader)) return;
    auto& ethernet = *rte_pktmbuf_mtod(packet, packet::EthernetHeader*);
    if (mode_ == MacMode::swap) {
      swap_macs(ethernet);
      return;
    }
    if (path.rewrite.src) std::memcpy(ethernet.src, path.rewrite.src->data(), 6);
    if (path.rewrite.dst) std::memcpy(ethernet.dst, path.rewrite.dst->data(), 6);
  }

  std::vector<Path> paths_;
  MacMode mode_;
};

}  // namespace

std::unique_ptr<Function> make_pass(ConfigReader& config, const FunctionContext& context) {
  std::vector<Path> paths;
  for (const uint16_t out : read_pairs(config, context))
    paths.push_back({.out = out, .rewrite = {}});
  const auto mode = static_cast<MacMode>(config.choice("mac", {"keep", "swap", "set"}, 0));
  for (ConfigReader& entry : config.children("set")) {
    const uint16_t out = context.port_index(entry.string("port"));
    const Rewrite rewrite{.src = entry.optional_mac("src"), .dst = entry.optional_mac("dst")};
    if (out >= paths.size()) entry.add_error("port", "isn't in `ports`");
    if (mode != MacMode::set) entry.add_error("port", "`set` needs \"mac\": \"set\"");
    for (Path& path : paths) {
      if (path.out == out) path.rewrite = rewrite;
    }
    entry.finish();
  }
  return std::make_unique<Pass>(std::move(paths), mode);
}

}  // namespace headrace::vnf
