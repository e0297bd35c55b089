// SPDX-License-Identifier: Apache-2.0
// Requests that wait while a large table is being built for one that came before (Lsi::changing()).
//
// Until that change is visible, nothing else may change the LSI, and the peer whose change it is
// has its other requests answered after it: a barrier's reply says that workers run what came
// before the barrier. So these are kept, in the order in which they came: all of a peer whose
// change is under way or that has something waiting, and of the others what would change the
// switch. The rest (statistics, barriers of others, keep-alive) is answered at once.
//
// Afterwards they are handled kPerTurn at a time, so that other work of the control thread has its
// turns, and until the next of them has a table built. A peer with more than kMostBytes waiting is
// not read from.
//
// Thread safety: none; used by the control thread only.
#pragma once

#include <asio/io_context.hpp>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>

#include "openflow/agent/peer.h"
#include "openflow/agent/requests.h"

namespace headrace::openflow {

class KeptBack {
 public:
  static constexpr size_t kPerTurn = 256;
  static constexpr size_t kMostBytes = 64 << 20;  ///< of all peers together

  KeptBack(asio::io_context& io, AgentContext& context) : io_(io), context_(context) {}

  /// Handles a message of a ready peer, now or later.
  void handle(Peer& peer, const Header& header, Bytes message);
  /// The peer is going.
  void forget(const Peer& peer);

 private:
  struct Kept {
    std::weak_ptr<Connection> connection;
    Peer* peer;
    Message message;
  };

  [[nodiscard]] bool must_wait(const Peer& peer, const Header& header, Bytes message) const;
  void run(Peer& peer, const Header& header, Bytes message);
  void wait_until_visible();
  void go_on();

  asio::io_context& io_;
  AgentContext& context_;
  std::deque<Kept> kept_;
  size_t bytes_{0};
  const Peer* changer_{nullptr};  ///< whose change is under way
  bool will_go_on_{false};        ///< go_on() will be called
  std::vector<std::weak_ptr<Connection>> paused_;
};

}  // namespace headrace::openflow
