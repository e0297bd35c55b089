// SPDX-License-Identifier: Apache-2.0
#include "openflow/session/endpoint.h"

#include <unistd.h>

#include <asio/ip/tcp.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/steady_timer.hpp>

#include "base/log.h"

namespace headrace::openflow {
namespace {

using Tcp = asio::ip::tcp;
using Local = asio::local::stream_protocol;
using Generic = asio::generic::stream_protocol;

constexpr std::chrono::milliseconds kAcceptRetry{200};

Tcp::endpoint tcp_endpoint(const Target& target) {
  if (target.address.empty()) return {Tcp::v4(), target.port};
  std::error_code code;
  return {asio::ip::make_address(target.address, code), target.port};
}

Generic::endpoint generic_endpoint(const Target& target) {
  if (target.is_unix) return Local::endpoint(target.path);
  return tcp_endpoint(target);
}

Generic protocol_of(const Target& target) {
  if (target.is_unix) return Local();
  return tcp_endpoint(target).protocol();
}

void no_delay(StreamSocket& socket, const Target& target) {
  if (target.is_unix) return;
  std::error_code ignored;
  socket.set_option(Tcp::no_delay(true), ignored);
}

/// True if the socket file has a listener.
bool is_alive(asio::io_context& io, const std::string& path) {
  Local::socket probe(io);
  std::error_code code;
  probe.connect(Local::endpoint(path), code);
  return !code;
}

}  // namespace

/// The acceptor, also referenced by its pending operation.
class Listener::Acceptor : public std::enable_shared_from_this<Listener::Acceptor> {
 public:
  Acceptor(asio::io_context& io, Target target, TlsCredentials* tls, Accepted accepted)
      : target_(std::move(target)),
        tls_(tls),
        accepted_(std::move(accepted)),
        retry_(io),
        tcp_(io),
        local_(io) {}

  std::error_code open() {
    return target_.is_unix ? open(local_, Local::endpoint(target_.path))
                           : open(tcp_, tcp_endpoint(target_));
  }

  uint16_t port() const {
    std::error_code ignored;
    return target_.is_unix ? uint16_t{0} : tcp_.local_endpoint(ignored).port();
  }

  void accept() {
    if (target_.is_unix) {
      accept_on(local_);
    } else {
      accept_on(tcp_);
    }
  }

  void close() {
    closed_ = true;
    std::error_code ignored;
    tcp_.close(ignored);
    local_.close(ignored);
    retry_.cancel();
  }

 private:
  template <typename A, typename Endpoint>
  static std::error_code open(A& acceptor, const Endpoint& endpoint) {
    std::error_code code;
    acceptor.open(endpoint.protocol(), code);
    if (!code) acceptor.set_option(typename A::reuse_address(true), code);
    if (!code) acceptor.bind(endpoint, code);
    if (!code) acceptor.listen(asio::socket_base::max_listen_connections, code);
    return code;
  }

  template <typename A>
  void accept_on(A& acceptor) {
    acceptor.async_accept([self = shared_from_this()](const std::error_code& code, auto socket) {
      if (self->closed_) return;
      if (code) {
        self->retry(code);
        return;
      }
      StreamSocket stream(std::move(socket));
      no_delay(stream, self->target_);
      self->take(std::move(stream));
      if (!self->closed_) self->accept();
    });
  }

  /// Passes a socket on, for TLS after the handshake; others are accepted meanwhile.
  void take(StreamSocket socket) {
    if (!target_.is_tls) {
      accepted_(plain_stream(std::move(socket)));
      return;
    }
    Result<TlsCredentials::Context> context = tls_->context();
    if (!context) {
      log::warn("openflow: {}", context.error().message);
      return;
    }
    if (handshakes_ >= kMaxHandshakes) return;
    ++handshakes_;
    secure(std::move(socket), std::move(*context), TlsRole::server,
           [self = shared_from_this()](Result<std::unique_ptr<Stream>> stream) {
             --self->handshakes_;
             if (self->closed_) return;
             if (stream) {
               self->accepted_(std::move(*stream));
             } else {
               log::info("openflow: {}", stream.error().message);
             }
           });
  }

  /// Out of descriptors or the like: retry after a delay, so that the loop doesn't spin.
  void retry(const std::error_code& code) {
    log::warn("openflow: accept: {}", code.message());
    retry_.expires_after(kAcceptRetry);
    retry_.async_wait([self = shared_from_this()](const std::error_code& cancelled) {
      if (!cancelled && !self->closed_) self->accept();
    });
  }

  Target target_;
  TlsCredentials* tls_;
  Accepted accepted_;
  size_t handshakes_{0};
  asio::steady_timer retry_;
  Tcp::acceptor tcp_;
  Local::acceptor local_;
  bool closed_{false};
};

Result<std::unique_ptr<Listener>> Listener::open(asio::io_context& io, const Target& target,
                                                 TlsCredentials* tls, Accepted accepted) {
  if (target.is_tls) {
    if (tls == nullptr) return fail("TLS is not set up here");
    if (Result<TlsCredentials::Context> usable = tls->context(); !usable) {
      return tl::unexpected<Error>(usable.error());
    }
  }
  if (target.is_unix) {
    if (is_alive(io, target.path)) {
      return fail("{}: another process listens on it; stop it or choose another directory",
                  target.path);
    }
    ::unlink(target.path.c_str());
  }
  auto acceptor = std::make_shared<Acceptor>(io, target, tls, std::move(accepted));
  if (const std::error_code code = acceptor->open()) {
    return fail("cannot listen on {}: {}",
                target.is_unix ? target.path : fmt::format("port {}", target.port), code.message());
  }
  std::unique_ptr<Listener> listener(new Listener());
  listener->port_ = acceptor->port();
  if (target.is_unix) listener->path_ = target.path;
  listener->acceptor_ = std::move(acceptor);
  listener->acceptor_->accept();
  return listener;
}

Listener::~Listener() {
  if (acceptor_) acceptor_->close();
  if (!path_.empty()) ::unlink(path_.c_str());
}

struct ConnectAttempt::State : std::enable_shared_from_this<ConnectAttempt::State> {
  State(asio::io_context& io, Target to, TlsCredentials* credentials, Done then)
      : socket(io), target(std::move(to)), tls(credentials), done(std::move(then)) {}

  void finish(Result<std::unique_ptr<Stream>> stream) {
    if (!done) return;
    const Done then = std::exchange(done, nullptr);
    then(std::move(stream));
  }

  void connected(const std::error_code& code) {
    if (!done) return;
    if (code) {
      finish(fail("{}", code.message()));
      return;
    }
    no_delay(socket, target);
    if (!target.is_tls) {
      finish(plain_stream(std::move(socket)));
      return;
    }
    if (tls == nullptr) {
      finish(fail("TLS is not set up here"));
      return;
    }
    Result<TlsCredentials::Context> context = tls->context();
    if (!context) {
      finish(tl::unexpected<Error>(context.error()));
      return;
    }
    secure(std::move(socket), std::move(*context), TlsRole::client,
           [self = shared_from_this()](Result<std::unique_ptr<Stream>> stream) {
             self->finish(std::move(stream));
           });
  }

  StreamSocket socket;
  Target target;
  TlsCredentials* tls;
  Done done;
};

ConnectAttempt::ConnectAttempt(asio::io_context& io, const Target& target, TlsCredentials* tls,
                               Done done)
    : state_(std::make_shared<State>(io, target, tls, std::move(done))) {
  std::error_code code;
  state_->socket.open(protocol_of(target), code);
  // A failure to open is reported as a failure to connect.
  state_->socket.async_connect(
      generic_endpoint(target),
      [state = state_](const std::error_code& result) { state->connected(result); });
}

ConnectAttempt::~ConnectAttempt() {
  state_->done = nullptr;
  std::error_code ignored;
  state_->socket.close(ignored);
}

}  // namespace headrace::openflow
