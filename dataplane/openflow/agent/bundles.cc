// SPDX-License-Identifier: Apache-2.0
#include "openflow/agent/bundles.h"

#include "openflow/codec/flows.h"
#include "openflow/codec/groups.h"
#include "openflow/codec/meters.h"
#include "openflow/codec/ports.h"

namespace headrace::openflow {
namespace {

using pipeline::BundleItem;

constexpr uint16_t kAtomic = 1 << 0;
constexpr uint16_t kOrdered = 1 << 1;

OfResult<BundleItem> decode_item(const Header& header, Bytes body) {
  switch (header.type) {
    case Type::flow_mod: {
      OfResult<pipeline::FlowMod> mod = decode_flow_mod(body);
      if (!mod) return of_fail(mod.error());
      return BundleItem(std::move(*mod));
    }
    case Type::group_mod: {
      OfResult<pipeline::GroupMod> mod = decode_group_mod(body);
      if (!mod) return of_fail(mod.error());
      return BundleItem(std::move(*mod));
    }
    case Type::meter_mod: {
      OfResult<pipeline::MeterMod> mod = decode_meter_mod(body);
      if (!mod) return of_fail(mod.error());
      return BundleItem(std::move(*mod));
    }
    case Type::port_mod: {
      OfResult<pipeline::PortMod> mod = decode_port_mod(body);
      if (!mod) return of_fail(mod.error());
      return BundleItem(*mod);
    }
    default:
      return of_fail(error::kBundleMsgUnsupported);
  }
}

}  // namespace

OfResult<Bundles::Bundle*> Bundles::open(uint32_t bundle_id, uint16_t flags) {
  if ((flags & ~(kAtomic | kOrdered)) != 0) return of_fail(error::kBundleBadFlags);
  if (bundles_.size() >= kMaxBundles) return of_fail(error::kOutOfBundles);
  Bundle& bundle = bundles_[bundle_id];
  bundle.flags = flags;
  return &bundle;
}

bool Bundles::fits(size_t octets) const {
  size_t messages = 1;
  for (const auto& [id, bundle] : bundles_) {
    messages += bundle.items.size();
    octets += bundle.octets;
  }
  return messages <= limits_.messages && octets <= limits_.octets;
}

OfResult<> Bundles::control(const BundleControl& request, pipeline::Lsi& lsi,
                            std::vector<CommitFailure>& failure) {
  const auto found = bundles_.find(request.bundle_id);
  if (request.type == BundleControlType::open_request) {
    if (found != bundles_.end()) {
      bundles_.erase(found);
      return of_fail(error::kBundleExists);
    }
    OfResult<Bundle*> bundle = open(request.bundle_id, request.flags);
    if (!bundle) return of_fail(bundle.error());
    return {};
  }
  if (found == bundles_.end()) return of_fail(error::kBundleBadId);
  Bundle& bundle = found->second;
  if (request.type == BundleControlType::discard_request) {
    bundles_.erase(found);
    return {};
  }
  if (request.type != BundleControlType::close_request &&
      request.type != BundleControlType::commit_request) {
    return of_fail(error::kBundleBadType);
  }
  if (request.flags != bundle.flags) {
    bundles_.erase(found);
    return of_fail(error::kBundleBadFlags);
  }
  if (request.type == BundleControlType::close_request) {
    if (bundle.closed) {
      bundles_.erase(found);
      return of_fail(error::kBundleClosed);
    }
    bundle.closed = true;
    return {};
  }
  const Bundle committed = std::move(bundle);
  bundles_.erase(found);
  const auto applied = lsi.apply_bundle(committed.items);
  if (applied) return {};
  failure.push_back({committed.heads[applied.error().index], applied.error().error});
  return of_fail(error::kBundleMsgFailed);
}

OfResult<> Bundles::add(const BundleAdd& request, uint32_t xid) {
  const Header header = *decode_header(request.message);
  if (header.version != kVersion) return of_fail(error::kBadVersion);
  if (header.xid != xid) return of_fail(error::kBundleMsgBadXid);
  auto found = bundles_.find(request.bundle_id);
  if (found == bundles_.end()) {
    OfResult<Bundle*> opened = open(request.bundle_id, request.flags);
    if (!opened) return of_fail(opened.error());
    found = bundles_.find(request.bundle_id);
  }
  Bundle& bundle = found->second;
  const auto refuse = [&](OfError error) {
    bundles_.erase(found);
    return of_fail(error);
  };
  if (bundle.closed) return refuse(error::kBundleClosed);
  if (request.flags != bundle.flags) return refuse(error::kBundleBadFlags);
  if (!fits(request.message.size())) return refuse(error::kBundleMsgTooMany);
  OfResult<BundleItem> item = decode_item(header, request.message.subspan(kHeaderSize));
  if (!item) return of_fail(item.error());
  bundle.items.push_back(std::move(*item));
  const Bytes head = request.message.first(std::min(request.message.size(), kHead));
  bundle.heads.emplace_back(head.begin(), head.end());
  bundle.octets += request.message.size();
  return {};
}

}  // namespace headrace::openflow
