// SPDX-License-Identifier: Apache-2.0
#include "traffic/frames/stream.h"

#include <arpa/inet.h>

#include <set>

#include "packet/mac_address.h"
#include "traffic/frames/params.h"

namespace headrace::traffic {

namespace {

using nlohmann::json;

constexpr size_t kMaxStreams = 1024;

/// The default stack of a stream without "layers": Ethernet, VLAN if requested, IPv4 or IPv6
/// depending on the given addresses, UDP.
HeaderStack plain_stack(const json& description) {
  std::vector<Layer> layers{default_layer(LayerKind::ethernet)};
  if (description.contains("vlan") && !description["vlan"].is_null()) {
    layers.push_back(default_layer(LayerKind::vlan));
  }
  bool ipv6 = false;
  for (const char* key : {"src_ip", "dst_ip"}) {
    const auto found = description.find(key);
    ipv6 |= found != description.end() && found->is_string() &&
            found->get<std::string>().find(':') != std::string::npos;
  }
  layers.push_back(default_layer(ipv6 ? LayerKind::ipv6 : LayerKind::ipv4));
  layers.push_back(default_layer(LayerKind::udp));
  return *HeaderStack::make(std::move(layers));
}

Layer* innermost(HeaderStack& stack, std::initializer_list<LayerKind> kinds) {
  auto& layers = stack.layers();
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    for (const LayerKind kind : kinds) {
      if (layer->kind == kind) return &*layer;
    }
  }
  return nullptr;
}

/// Applies the stream's shorthand members ("dst_mac", "src_ip", ...) to the innermost layer that
/// has the field.
void read_shorthands(ParamReader& reader, HeaderStack& stack) {
  std::string text;
  for (const char* key : {"src_mac", "dst_mac"}) {
    if (!reader.optional(key, text)) continue;
    const auto mac = packet::parse_mac(text);
    Layer* layer = innermost(stack, {LayerKind::ethernet});
    if (!mac) {
      reader.reject(key, "'{}' is not a MAC address", text);
    } else {
      (*key == 's' ? layer->src_mac : layer->dst_mac) = *mac;
    }
  }
  for (const char* key : {"src_ip", "dst_ip"}) {
    if (!reader.optional(key, text)) continue;
    Layer* layer = innermost(stack, {LayerKind::ipv4, LayerKind::ipv6, LayerKind::arp});
    if (layer == nullptr) {
      reader.reject(key, "the layers have no address");
      continue;
    }
    const int version = layer->kind == LayerKind::ipv6 ? 6 : 4;
    const auto address = parse_ip(version == 6 ? AF_INET6 : AF_INET, text);
    if (!address) {
      reader.reject(key, "'{}' is not an IPv{} address", text, version);
    } else {
      (*key == 's' ? layer->src_ip : layer->dst_ip) = *address;
    }
  }
  for (const char* key : {"src_port", "dst_port"}) {
    uint16_t port = 0;
    if (!reader.optional(key, port)) continue;
    Layer* layer = innermost(stack, {LayerKind::udp, LayerKind::tcp});
    if (layer == nullptr) {
      reader.reject(key, "the layers have neither udp nor tcp");
    } else {
      (*key == 's' ? layer->src_port : layer->dst_port) = port;
    }
  }
  uint32_t vid = 0;
  if (reader.optional("vlan", vid)) {
    Layer* layer = innermost(stack, {LayerKind::vlan});
    if (layer == nullptr) {
      reader.reject("vlan", "the layers have no vlan");
    } else if (vid > 4095) {
      reader.reject("vlan", "must be at most 4095");
    } else {
      layer->id = vid;
    }
  }
}

/// The fields in which flows differ by default: the innermost destination address.
std::vector<Variation> default_variations(const HeaderStack& stack) {
  for (auto layer = stack.layers().rbegin(); layer != stack.layers().rend(); ++layer) {
    if (layer->kind == LayerKind::ipv6) return {Variation{.field = "ipv6_dst"}};
    if (layer->kind == LayerKind::ipv4 || layer->kind == LayerKind::arp) break;
  }
  return {Variation{.field = "ipv4_dst"}};
}

Result<std::vector<Variation>> read_variations(const json& list, const std::string& path) {
  if (!list.is_array() || list.empty()) {
    return fail_as("bad_params", "{}: must be a list of fields", path);
  }
  std::vector<Variation> vary;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("{}/{}", path, i);
    Variation variation;
    if (list[i].is_string()) {
      variation.field = list[i].get<std::string>();
    } else {
      ParamReader reader(list[i], where);
      reader.required("field", variation.field);
      reader.optional("step", variation.step);
      reader.optional("count", variation.count);
      if (auto read = reader.finish(); !read) return tl::unexpected(read.error());
    }
    vary.push_back(std::move(variation));
  }
  return vary;
}

/// A stream that replays a capture: {"name","tx_port","rx_port","share","pcap","timing"}.
Result<Stream> read_replay(const json& description, const std::string& path) {
  ParamReader reader(description, path);
  Stream stream;
  std::string file;
  json timing = "load";
  reader.required("name", stream.name);
  reader.required("tx_port", stream.tx_port);
  reader.required("rx_port", stream.rx_port);
  reader.required("pcap", file);
  if (reader.optional("share", stream.share) && !(stream.share > 0)) {
    reader.reject("share", "must be above 0");
  }
  reader.optional("timing", timing);
  if (timing == "original") {
    stream.replay_speed = 1;
  } else if (timing.is_object()) {
    ParamReader inner(timing, path + "/timing");
    inner.required("speed", stream.replay_speed);
    if (!(stream.replay_speed > 0)) inner.reject("speed", "must be above 0");
    if (auto ok = inner.finish(); !ok) return tl::unexpected(ok.error());
  } else if (timing != "load") {
    reader.reject("timing", "write \"load\", \"original\" or {{\"speed\": factor}}");
  }
  if (auto ok = reader.finish(); !ok) return tl::unexpected(ok.error());
  auto replay = Replay::open(file);
  if (!replay) return fail_as(replay.error().code, "{}/pcap: {}", path, replay.error().message);
  stream.sizes = replay->sizes();
  stream.replay = std::make_shared<const Replay>(std::move(*replay));
  return stream;
}

Result<Stream> read_stream(const json& description, const std::string& path) {
  if (description.is_object() && description.contains("pcap")) {
    return read_replay(description, path);
  }
  ParamReader reader(description, path);
  std::string name;
  std::string tx_port;
  std::string rx_port;
  double share = 1;
  uint32_t flows = 1;
  json size = 64;
  json layers;
  json vary;
  json popularity = "uniform";
  reader.required("name", name);
  reader.required("tx_port", tx_port);
  reader.required("rx_port", rx_port);
  reader.optional("size", size);
  reader.optional("flows", flows);
  if (reader.optional("share", share) && !(share > 0)) reader.reject("share", "must be above 0");
  const bool has_layers = reader.optional("layers", layers);
  reader.optional("popularity", popularity);
  const bool has_vary = reader.optional("vary", vary);

  auto stack = !has_layers && description.is_object()
                   ? Result<HeaderStack>(plain_stack(description))
                   : HeaderStack::from_json(layers, path + "/layers");
  if (!stack) {
    if (auto read = reader.finish(); !read && !description.is_object()) {
      return tl::unexpected(read.error());
    }
    return tl::unexpected(stack.error());
  }
  read_shorthands(reader, *stack);
  if (auto read = reader.finish(); !read) return tl::unexpected(read.error());

  auto sizes = SizeProfile::from_json(size);
  if (!sizes) return fail_as("bad_params", "{}/size: {}", path, sizes.error().message);
  std::vector<Variation> variations = default_variations(*stack);
  if (has_vary) {
    auto read = read_variations(vary, path + "/vary");
    if (!read) return tl::unexpected(read.error());
    variations = std::move(*read);
  }
  auto frames = FrameSet::build(*stack, *sizes, flows, variations);
  if (!frames) return fail_as("bad_params", "{}/{}", path, frames.error().message);
  const auto law = Popularity::read(popularity, path + "/popularity");
  if (!law) return tl::unexpected(law.error());
  return Stream{.name = std::move(name),
                .tx_port = std::move(tx_port),
                .rx_port = std::move(rx_port),
                .share = share,
                .sizes = std::move(*sizes),
                .frames = std::move(*frames),
                .replay = nullptr,
                .popularity = *law,
                .order = law->order(flows)};
}

}  // namespace

json Stream::to_json() const {
  return {{"name", name},
          {"size", sizes.to_json()},
          {"flows", flows()},
          {"popularity", popularity.to_json()}};
}

Result<std::vector<Stream>> read_streams(const json& list, const std::string& path) {
  if (!list.is_array() || list.empty() || list.size() > kMaxStreams) {
    return fail_as("bad_params", "{}: must be a list of 1 to {} streams", path, kMaxStreams);
  }
  std::vector<Stream> streams;
  std::set<std::string> names;
  for (size_t i = 0; i < list.size(); ++i) {
    const std::string where = fmt::format("{}/{}", path, i);
    auto stream = read_stream(list[i], where);
    if (!stream) return tl::unexpected(stream.error());
    if (!names.insert(stream->name).second) {
      return fail_as("bad_params", "{}/name: there is another stream '{}'", where, stream->name);
    }
    streams.push_back(std::move(*stream));
  }
  return streams;
}

}  // namespace headrace::traffic
