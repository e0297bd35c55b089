// SPDX-License-Identifier: Apache-2.0
#include "openflow/agent/kept_back.h"

#include <asio/post.hpp>
#include <utility>

namespace headrace::openflow {

bool KeptBack::must_wait(const Peer& peer, const Header& header, Bytes message) const {
  if (!context_.lsi.changing() && kept_.empty()) return false;
  if (&peer == changer_ || peer.kept_back > 0) return true;
  return changes_switch(header, message.subspan(kHeaderSize));
}

void KeptBack::handle(Peer& peer, const Header& header, Bytes message) {
  if (!must_wait(peer, header, message)) return run(peer, header, message);
  kept_.push_back({peer.connection, &peer, Message(message.begin(), message.end())});
  ++peer.kept_back;
  bytes_ += message.size();
  wait_until_visible();
  if (bytes_ <= kMostBytes) return;
  peer.connection->set_paused(true);
  paused_.emplace_back(peer.connection);
}

void KeptBack::run(Peer& peer, const Header& header, Bytes message) {
  const bool was_changing = context_.lsi.changing();
  handle_request(context_, peer, header, message);
  if (was_changing || !context_.lsi.changing()) return;
  changer_ = &peer;
  wait_until_visible();
}

void KeptBack::wait_until_visible() {
  if (std::exchange(will_go_on_, true)) return;
  context_.lsi.when_visible([this, alive = std::weak_ptr<bool>(context_.alive)] {
    if (!alive.expired()) go_on();
  });
}

void KeptBack::go_on() {
  will_go_on_ = false;
  changer_ = nullptr;
  for (size_t n = 0; n < kPerTurn && !kept_.empty(); ++n) {
    if (context_.lsi.changing()) return wait_until_visible();
    const Kept next = std::move(kept_.front());
    kept_.pop_front();
    bytes_ -= next.message.size();
    const auto connection = next.connection.lock();
    if (connection == nullptr || next.peer == nullptr) continue;
    --next.peer->kept_back;
    run(*next.peer, *decode_header(next.message), next.message);
  }
  if (bytes_ <= kMostBytes / 2) {
    for (const auto& each : std::exchange(paused_, {})) {
      if (const auto connection = each.lock()) connection->set_paused(false);
    }
  }
  if (kept_.empty()) return;
  if (context_.lsi.changing()) return wait_until_visible();
  will_go_on_ = true;
  asio::post(io_, [this, alive = std::weak_ptr<bool>(context_.alive)] {
    if (!alive.expired()) go_on();
  });
}

void KeptBack::forget(const Peer& peer) {
  if (changer_ == &peer) changer_ = nullptr;
  for (Kept& each : kept_) {
    if (each.peer == &peer) each.peer = nullptr;
  }
}

}  // namespace headrace::openflow
