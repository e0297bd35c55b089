// SPDX-License-Identifier: Apache-2.0
#include "ovsdb/rpc.h"

#include <sys/un.h>

#include "ovsdb/parse.h"

namespace headrace::ovsdb {

Result<asio::generic::stream_protocol::endpoint> parse_target(const std::string& target) {
  if (target.starts_with("unix:")) {
    const auto path = target.substr(5);
    if (path.empty() || path.size() >= sizeof(sockaddr_un::sun_path)) {
      return fail("OVSDB target '{}': the path must have 1 to {} bytes", target,
                  sizeof(sockaddr_un::sun_path) - 1);
    }
    return asio::local::stream_protocol::endpoint(path);
  }
  const auto colon = target.rfind(':');
  if ((!target.starts_with("tcp:") && !target.starts_with("ssl:")) || colon <= 4) {
    return fail("OVSDB target '{}': expected unix:PATH, tcp:IP:PORT or ssl:IP:PORT", target);
  }
  auto host = target.substr(4, colon - 4);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  }
  asio::error_code code;
  const auto address = asio::ip::make_address(host, code);
  const auto port = parse_unsigned(std::string_view(target).substr(colon + 1));
  if (code || !port || *port == 0 || *port > UINT16_MAX) {
    return fail("OVSDB target '{}': expected a numeric address and a port", target);
  }
  return asio::ip::tcp::endpoint(address, static_cast<uint16_t>(*port));
}

Rpc::Rpc(asio::io_context& context, TlsCredentials* tls)
    : context_(context), tls_(tls), socket_(context), probe_(context) {}

Result<> Rpc::connect(const std::string& target) {
  auto endpoint = parse_target(target);
  if (!endpoint) {
    return tl::unexpected(endpoint.error());
  }
  socket_.async_connect(*endpoint, [self = shared_from_this(), target](asio::error_code code) {
    if (self->closed_) {
      return;
    }
    if (code) {
      self->fail_connection(fmt::format("{}: {}", target, code.message()));
      return;
    }
    self->connected(target);
  });
  return {};
}

void Rpc::connected(const std::string& target) {
  if (!target.starts_with("ssl:")) {
    ready(plain_stream(std::move(socket_)));
    return;
  }
  if (tls_ == nullptr) {
    fail_connection(target + ": TLS is not set up here");
    return;
  }
  auto context = tls_->context();
  if (!context) {
    fail_connection(fmt::format("{}: {}", target, context.error().message));
    return;
  }
  secure(std::move(socket_), *std::move(context), TlsRole::client,
         [self = shared_from_this(), target](Result<std::unique_ptr<Stream>> stream) {
           if (self->closed_) {
             return;
           }
           if (!stream) {
             self->fail_connection(fmt::format("{}: {}", target, stream.error().message));
             return;
           }
           self->ready(*std::move(stream));
         });
}

void Rpc::ready(std::unique_ptr<Stream> stream) {
  stream_ = std::move(stream);
  open_ = true;
  read();
  start_probe();
  if (on_connect) {
    on_connect();
  }
}

void Rpc::request(const std::string& method, Json params, OnReply on_reply) {
  const int64_t id = next_id_++;
  pending_.emplace(id, std::move(on_reply));
  send(Json{{"method", method}, {"params", std::move(params)}, {"id", id}});
}

void Rpc::close() {
  if (closed_) {
    return;
  }
  closed_ = true;
  open_ = false;
  asio::error_code ignored;
  socket_.close(ignored);
  if (stream_) {
    stream_->close();
  }
  probe_.cancel();
  // Handlers may own the object that owns this connection, so they are destroyed only after this
  // call.
  asio::post(context_, [self = shared_from_this()] {
    self->pending_.clear();
    self->on_connect = nullptr;
    self->on_notify = nullptr;
    self->on_failure = nullptr;
  });
}

void Rpc::fail_connection(const std::string& why) {
  if (closed_) {
    return;
  }
  const auto handler = on_failure;
  close();
  if (handler) {
    handler(why);
  }
}

void Rpc::send(const Json& message) {
  if (!open_) {
    return;
  }
  auto text = message.dump(-1, ' ', false, Json::error_handler_t::replace);
  backlog_ += text.size();
  const bool idle = output_.empty();
  output_.push_back(std::move(text));
  if (backlog_ > kMaxBacklog) {
    asio::post(context_, [self = shared_from_this()] {
      self->fail_connection("the peer doesn't read: the send queue is full");
    });
    return;
  }
  if (idle) {
    write();
  }
}

void Rpc::write() {
  stream_->async_write_some(asio::buffer(output_.front()) + written_,
                            [self = shared_from_this()](asio::error_code code, size_t size) {
                              if (self->closed_) {
                                return;
                              }
                              if (code) {
                                self->fail_connection(code.message());
                                return;
                              }
                              self->backlog_ -= size;
                              self->written_ += size;
                              if (self->written_ == self->output_.front().size()) {
                                self->output_.pop_front();
                                self->written_ = 0;
                              }
                              if (!self->output_.empty()) {
                                self->write();
                              }
                            });
}

void Rpc::read() {
  stream_->async_read_some(
      asio::buffer(input_), [self = shared_from_this()](asio::error_code code, size_t size) {
        if (self->closed_) {
          return;
        }
        if (code) {
          self->fail_connection(code.message());
          return;
        }
        if (auto received = self->receive({self->input_.data(), size}); !received) {
          self->fail_connection(received.error().message);
          return;
        }
        if (!self->closed_) {
          self->read();
        }
      });
}

void Rpc::start_probe() {
  probe_.expires_after(kProbeInterval);
  probe_.async_wait([self = shared_from_this()](asio::error_code code) {
    if (code || self->closed_) {
      return;
    }
    if (self->probing_ && !self->received_) {
      self->fail_connection("no reply to the inactivity probe");
      return;
    }
    self->probing_ = !self->received_;
    if (self->probing_) {
      self->request("echo", Json::array(), [](const Result<Json>&) {});
    }
    self->received_ = false;
    self->start_probe();
  });
}

Result<> Rpc::receive(std::string_view bytes) {
  received_ = true;
  std::vector<std::string> messages;
  auto split = splitter_.feed(bytes, messages);
  for (const auto& text : messages) {
    if (closed_) {
      return {};
    }
    if (auto dispatched = dispatch(text); !dispatched) {
      return dispatched;
    }
  }
  return split;
}

Result<> Rpc::dispatch(const std::string& text) {
  const Json message = Json::parse(text, nullptr, false);
  if (message.is_discarded() || !message.is_object()) {
    return fail("a message is not JSON");
  }
  const auto method = message.find("method");
  if (method == message.end()) {
    return dispatch_reply(message);
  }
  const auto params = message.find("params");
  if (!method->is_string() || params == message.end() || !params->is_array()) {
    return fail("a message has a malformed method or params");
  }
  const auto id = message.find("id");
  const bool wants_reply = id != message.end() && !id->is_null();
  if (*method == "echo") {
    if (wants_reply) {
      send(Json{{"result", *params}, {"error", nullptr}, {"id", *id}});
    }
    return {};
  }
  if (wants_reply) {
    send(Json{{"result", nullptr}, {"error", "unknown method"}, {"id", *id}});
    return {};
  }
  if (on_notify) {
    on_notify(method->get_ref<const std::string&>(), *params);
  }
  return {};
}

Result<> Rpc::dispatch_reply(const Json& message) {
  const auto id = message.find("id");
  if (id == message.end() || !id->is_number_integer()) {
    return fail("a reply has an unknown kind of id");
  }
  const auto entry = pending_.extract(id->get<int64_t>());
  if (entry.empty()) {
    return fail("a reply has an id without a pending request");
  }
  const auto error = message.find("error");
  const auto result = message.find("result");
  if (error != message.end() && !error->is_null()) {
    entry.mapped()(fail("{}", error->dump(-1, ' ', false, Json::error_handler_t::replace)));
  } else if (result != message.end()) {
    entry.mapped()(*result);
  } else {
    return fail("a reply has neither result nor error");
  }
  return {};
}

}  // namespace headrace::ovsdb
